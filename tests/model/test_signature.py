"""What a function is called with is recorded, and comes back, as what it declares."""

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from tenure.errors import InvalidInput, Malformed, NotPlainData
from tenure.model.data import decode, encode
from tenure.model.signature import Signature, injected_parameter

if TYPE_CHECKING:
    from decimal import Decimal


class TaskContext:
    pass


class Page(BaseModel):
    number: int
    key: UUID = UUID(int=1)


def render(
    page: Page, scale: float = 1.0, *, tags: "set[str] | None" = None, ctx: "TaskContext"
) -> "list[Page]":
    del scale, tags, ctx
    return [page]


def variadic(run: Any, first: int, /, *pages: Page, **options: UUID) -> None:
    del run, first, pages, options


def bare(a, b=2, *rest, **more):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002, ANN003, ANN201
    return a, b, rest, more


RENDER = Signature(render, skip=("ctx",))
VARIADIC = Signature(variadic, skip=("run",))


def there_and_back(signature: Signature, *args: object, **kwargs: object) -> dict[str, Any]:
    raw = encode(signature.dump_call(args, kwargs), limit=10_000, where="it")
    params: dict[str, Any] = decode(raw, where="it")
    return params


def test_arguments_are_recorded_by_name_as_plain_data() -> None:
    params = there_and_back(RENDER, Page(number=1), tags={"b", "a"})
    assert params == {"page": {"number": 1, "key": str(UUID(int=1))}, "tags": ["a", "b"]}


def test_arguments_come_back_as_what_the_function_declares() -> None:
    context = TaskContext()
    params = there_and_back(RENDER, Page(number=1), 2, tags={"b", "a"})
    args, kwargs = RENDER.load_call(params, {"ctx": context})
    assert args == (Page(number=1), 2.0)
    assert kwargs == {"tags": {"a", "b"}, "ctx": context}
    assert render(*args, **kwargs) == [Page(number=1)]


def test_the_same_call_is_recorded_the_same_however_it_is_written() -> None:
    page = Page(number=1)
    assert RENDER.dump_call((page, 2.0), {}) == RENDER.dump_call((), {"scale": 2.0, "page": page})
    assert RENDER.dump_call(({"number": 1},), {}) == RENDER.dump_call((page,), {})


def test_stars_and_slashes_come_back() -> None:
    params = there_and_back(VARIADIC, 1, Page(number=1), Page(number=2), a=UUID(int=3))
    args, kwargs = VARIADIC.load_call(params, {"run": "the run"})
    assert args == ("the run", 1, Page(number=1), Page(number=2))
    assert kwargs == {"a": UUID(int=3)}


def test_stars_take_only_what_they_can_spread() -> None:
    for params in ({"first": 1, "pages": "ab"}, {"first": 1, "options": [1]}):
        with pytest.raises(InvalidInput, match=r"variadic\((pages|options)\): it has to be a (list|dict)"):
            VARIADIC.load_call(params, {"run": None})


def test_a_context_before_stars_takes_its_place() -> None:
    def gather(ctx: TaskContext, *pages: int) -> None:
        del ctx, pages

    signature = Signature(gather, skip=("ctx",))
    assert signature.load_call(there_and_back(signature, 1, 2), {"ctx": "context"}) == (("context", 1, 2), {})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((1, [2], 3, None), {"x": {"y": 1}}), ((), {"a": 1, "b": None}), ((1,), {"b": 3, "c": b""})],
)
def test_a_function_without_annotations_takes_any_plain_data(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    signature = Signature(bare)
    back_args, back_kwargs = signature.load_call(there_and_back(signature, *args, **kwargs))
    call: Callable[..., object] = bare
    assert call(*back_args, **back_kwargs) == call(*args, **kwargs)
    with pytest.raises(NotPlainData, match=r"^bare\(rest\)\[1\]: set"):
        signature.dump_call((1, 2, 3, {4}), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, r"render: missing a required argument: 'page'"),
        ((1, 2, 3), {}, "render: too many positional arguments"),
        ((1,), {"page": 1}, "render: multiple values for argument 'page'"),
        ((1,), {"pages": 1}, r"unexpected keyword argument 'pages'; it takes \(page: "),
        ((1,), {"ctx": 1}, "unexpected keyword argument 'ctx'"),
        (({"number": "x"},), {}, r"^render\(page\): number: Input should be a valid integer"),
        ((Page(number=1), "wide"), {}, r"^render\(scale\): Input should be a valid number"),
    ],
)
def test_a_wrong_call_names_the_function_and_the_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        RENDER.dump_call(args, kwargs)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, "render: it needs 'page', which was not given"),
        ({"page": {"number": 1}, "size": 1}, "render: it takes no 'size'"),
        ({"page": {"number": None}}, r"render\(page\): number: "),
        ({"page": {"number": 1}, "tags": "ab"}, r"render\(tags\): "),
    ],
)
def test_parameters_that_do_not_fit_are_refused_before_the_function_runs(
    params: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        RENDER.load_call(params, {"ctx": None})


def test_a_default_added_later_does_not_change_what_is_recorded() -> None:
    def before(a: int) -> None:
        del a

    def after(a: int, b: int = 2) -> None:
        del a, b

    recorded = Signature(before).dump_call((1,), {})
    assert Signature(after).dump_call((1,), {}) == recorded
    assert Signature(after).load_call(recorded) == ((1,), {})


def test_results_come_back_as_what_the_function_declares() -> None:
    plain = RENDER.dump_result([{"number": 1}])
    assert plain == [{"number": 1, "key": str(UUID(int=1))}]
    assert RENDER.load_result(plain) == [Page(number=1)]
    with pytest.raises(InvalidInput, match="the result of render: Input should be a valid list"):
        RENDER.dump_result(7)
    with pytest.raises(Malformed, match="recorded by another version of render"):
        RENDER.load_result([{"n": 1}])


def test_a_function_that_declares_no_result_gives_none() -> None:
    assert VARIADIC.dump_result(None) is None
    with pytest.raises(InvalidInput, match="the result of variadic"):
        VARIADIC.dump_result(1)


def test_an_annotation_that_cannot_be_resolved_takes_any_plain_data(caplog: pytest.LogCaptureFixture) -> None:
    def pay(amount: "Decimal", page: Page) -> "Missing":  # type: ignore[name-defined]  # noqa: F821
        del amount, page

    signature = Signature(pay)
    with caplog.at_level(logging.WARNING):
        assert signature.dump_call((1, Page(number=1)), {})["amount"] == 1
        assert signature.dump_result([1]) == [1]
    assert "annotation 'Decimal' of 'amount' cannot be resolved" in caplog.text
    assert signature.load_call({"amount": 1, "page": {"number": 1}}) == ((1, Page(number=1)), {})


async def fetch(url: str, ctx: TaskContext) -> bytes:
    del url, ctx
    return b""


class Printer:
    def __call__(self, page: "Page") -> "int":
        return page.number

    def method(self, page: "Page") -> "int":
        return page.number


@functools.wraps(fetch)
async def wrapped(*args: Any, **kwargs: Any) -> bytes:
    return await fetch(*args, **kwargs)


@pytest.mark.parametrize("func", [fetch, wrapped])
def test_coroutine_functions_and_wrappers_declare_what_they_return(func: Callable[..., object]) -> None:
    signature = Signature.of(func, injected="TaskContext", named="ctx")
    assert signature.dump_call(("x",), {}) == {"url": "x"}
    assert signature.load_result(signature.dump_result(b"\xff")) == b"\xff"
    with pytest.raises(InvalidInput, match=r"fetch\(url\)"):
        signature.dump_call((1,), {})


@pytest.mark.parametrize("func", [Printer(), Printer().method, functools.partial(Printer().method)])
def test_any_callable_has_a_boundary(func: Callable[..., object]) -> None:
    signature = Signature(func)
    args, kwargs = signature.load_call(signature.dump_call((Page(number=1),), {}))
    assert func(*args, **kwargs) == 1


def test_an_annotation_need_not_be_hashable() -> None:
    def scale(by: Annotated[int, Field(gt=2), []]) -> Annotated[int, []]:
        return by

    signature = Signature(scale)
    assert signature.dump_call((3,), {}) == {"by": 3}
    assert signature.load_result(3) == 3
    with pytest.raises(InvalidInput, match=r"scale\(by\): Input should be greater than 2"):
        signature.load_call({"by": 2})


def test_the_injected_parameter_is_found_by_its_type_or_else_by_its_name() -> None:
    def by_type(page: int, context: TaskContext, ctx: int) -> None: ...
    def by_text(page: int, context: "tenure.TaskContext") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def by_name(page: int, ctx) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    def none(page: int) -> None: ...

    found = [
        injected_parameter(func, injected="TaskContext", named="ctx")
        for func in (by_type, by_text, by_name, none)
    ]
    assert found == ["context", "context", "ctx", None]
    with pytest.raises(InvalidInput, match="has no parameter 'run'"):
        Signature(none, skip=("run",))
