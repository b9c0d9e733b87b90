"""The application that the fundamentals talk about: a small publisher."""

from __future__ import annotations

from pydantic import BaseModel

from tenure import Needs, Retry, Run, TaskContext, TaskFailed, recipe, task
from tests.jobs import ledger


class Page(BaseModel):
    number: int
    text: str


class Book(BaseModel):
    title: str
    pages: list[Page]


@task
def layout(book: Book, ctx: TaskContext) -> list[Page]:
    ledger.write("layout", ctx)
    return sorted(book.pages, key=lambda page: page.number)


@task
def render(page: Page, ctx: TaskContext) -> str:
    ledger.write("render", ctx)
    ctx.progress(1, 1, f"page {page.number}")
    return f"[{page.text}]"


@task(needs=Needs(memory="8Gi"))
def bind(pages: list[str]) -> str:
    return "".join(pages)


@task(retry=Retry(attempts=3, initial="10ms"))
def print_cover(title: str, ctx: TaskContext) -> str:
    if ctx.attempt < 3:
        raise ConnectionError(f"the printer is busy (attempt {ctx.attempt})")
    return title.upper()


@task
def tear() -> None:
    raise ValueError("the paper is torn")


@recipe
def preview(run: Run, book: Book) -> str:
    pages = run.call(layout, book)
    return "".join(run.map(render, pages))


@recipe
def publish(run: Run, book: Book) -> str:
    pages = run.call(layout, book)
    rendered = run.map(render, pages)
    return run.call(bind, rendered)


@recipe
def cover(run: Run, title: str) -> str:
    return run.call(print_cover, title)


@recipe
def careful(run: Run) -> str:
    try:
        run.call(tear)
    except TaskFailed as error:
        return f"we go on: {error}"
    return "nothing happened"


@recipe
def careless(run: Run) -> None:
    run.call(tear)
