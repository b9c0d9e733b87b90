"""Needs and allocations for properties to be tried on: few values, so that many come close."""

from typing import Any

from hypothesis import strategies as st

from tenure.model.allocation import Allocation
from tenure.model.needs import Needs

DIGESTS = ["sha256:" + digit * 64 for digit in "ab"]


def _shared() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "cpu": st.sampled_from(["500m", 1, "2", 1.5]),
        "memory": st.sampled_from(["1Gi", "1G", 2**30, "4Gi"]),
        "ephemeral_storage": st.sampled_from(["1Gi", "2Gi"]),
        "gpu": st.sampled_from([1, "1/3", "500m"]),
        "resources": st.dictionaries(st.sampled_from(["fpga", "example.com/fpga"]), st.integers(1, 3)),
        "platform": st.sampled_from(["linux/amd64", "linux/arm64", "linux/arm64/v8", "linux/arm/v7"]),
        "label": st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["eu", "us"])),
    }


def needs() -> st.SearchStrategy[Needs]:
    image = st.sampled_from(["a:1", "b:1", *(f"a@{digest}" for digest in DIGESTS)])
    return st.fixed_dictionaries({}, optional={**_shared(), "image": image}).map(lambda given: Needs(**given))


def allocations() -> st.SearchStrategy[Allocation]:
    image = st.fixed_dictionaries(
        {},
        optional={
            "reference": st.sampled_from(["a:1", "b:1"]),
            "manifest_digest": st.sampled_from(DIGESTS),
            "image_id": st.sampled_from(DIGESTS),
        },
    )
    told = _shared() | {
        "cpu": st.sampled_from([0, "500m", 1, 2]),
        "gpu": st.sampled_from([0, "1/2", 1]),
        "image": image,
    }
    return st.fixed_dictionaries({}, optional=told).map(lambda facts: Allocation(**facts))
