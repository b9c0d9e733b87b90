"""The application of the example image: what workers import, and what starts an execution.

docker compose --file docker/compose.yaml run --rm app
"""

from tenure import Client, Needs, Retry, Run, TaskContext, recipe, task


@task
def split(text: str) -> list[str]:
    return text.split(".")


@task(retry=Retry(attempts=3, initial="1s"))
def count(sentence: str, ctx: TaskContext) -> int:
    ctx.progress(1, 1, "counted")
    return len(sentence.split())


@task(needs=Needs(memory="2Gi"))
def report(counts: list[int]) -> str:
    return f"{sum(counts)} words in {len(counts)} sentences"


@recipe(version="1")
def analyse(run: Run, text: str) -> str:
    sentences = run.call(split, text)
    counts = run.map(count, sentences)
    return run.call(report, counts)  # only in the pool `large`


def main() -> None:
    with Client() as client:
        handle = client.start(analyse, "One two. Three four five. Six")
        print(handle.result(timeout=60))


if __name__ == "__main__":
    main()
