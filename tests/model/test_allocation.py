"""An allocation is told, in whichever way, and keeps what was told."""

import copy
import pickle

import pytest
from hypothesis import given

from tenure.errors import InvalidInput, Malformed
from tenure.model.allocation import Allocation, Image
from tests.model.environments import DIGESTS, allocations


@given(allocations())
def test_allocations_read_back_from_each_of_their_forms(one: Allocation) -> None:
    assert Allocation.parse(str(one)) == one
    assert Allocation.from_data(one.to_data()) == one
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one  # noqa: S301
    assert hash(Allocation.parse(str(one))) == hash(one)


def test_nothing_at_all_is_a_fact() -> None:
    none = Allocation(cpu=0, gpu=0, resources={"fpga": 0})
    assert str(none) == "cpu=0,gpu=0,resource.fpga=0"
    assert not none.is_empty
    assert Allocation().is_empty
    with pytest.raises(InvalidInput, match="negative"):
        Allocation(memory=-1)


def test_an_image_is_told_by_its_reference_or_by_its_parts() -> None:
    assert Allocation(image="a:1").image == Image(reference="a:1")
    assert Allocation(image={"manifest_digest": DIGESTS[0]}).image == Image(manifest_digest=DIGESTS[0])
    told = Allocation.parse(f"image=a:1,image.manifest_digest={DIGESTS[0]},image.image_id={DIGESTS[1]}")
    assert told.image == Image(reference="a:1", manifest_digest=DIGESTS[0], image_id=DIGESTS[1])


@pytest.mark.parametrize(
    "image", [{"digest": DIGESTS[0]}, {"manifest_digest": "latest"}, {"reference": "a b"}, {"image_id": 1}, 7]
)
def test_an_image_that_cannot_be_read_is_refused(image: object) -> None:
    with pytest.raises(InvalidInput, match=r"^image"):
        Allocation(image=image)  # type: ignore[arg-type]
    with pytest.raises(Malformed, match="stored allocations"):
        Allocation.from_data({"image": image})


def test_the_environment_tells_an_allocation() -> None:
    environment = {
        "PATH": "/bin",
        "TENURE_ALLOCATION_CPU": "2",
        "TENURE_ALLOCATION_MEMORY": "4Gi",
        "TENURE_ALLOCATION_EPHEMERAL_STORAGE": "1Gi",
        "TENURE_ALLOCATION_GPU": "",
        "TENURE_ALLOCATION_PLATFORM": "linux/amd64",
        "TENURE_ALLOCATION_IMAGE": "a:1",
        "TENURE_ALLOCATION_IMAGE_MANIFEST_DIGEST": DIGESTS[0],
        "TENURE_ALLOCATION_LABELS": "zone=eu,example.com/disk=ssd",
        "TENURE_ALLOCATION_RESOURCES": "example.com/fpga=1",
    }
    assert Allocation.from_environment(environment) == Allocation(
        cpu=2,
        memory="4Gi",
        ephemeral_storage="1Gi",
        platform="linux/amd64",
        image=Image(reference="a:1", manifest_digest=DIGESTS[0]),
        label={"zone": "eu", "example.com/disk": "ssd"},
        resources={"example.com/fpga": 1},
    )
    assert Allocation.from_environment({}) == Allocation()


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("TENURE_ALLOCATION_CPUS", "2", "TENURE_ALLOCATION_CPUS: .* not known; .* CPU, MEMORY"),
        ("TENURE_ALLOCATION_CPU", "two", "TENURE_ALLOCATION_CPU: cpu: 'two'"),
        ("TENURE_ALLOCATION_IMAGE_MANIFEST_DIGEST", "sha256:aa", "TENURE_ALLOCATION_IMAGE_MANIFEST_DIGEST: "),
        ("TENURE_ALLOCATION_RESOURCES", "fpga=x", "TENURE_ALLOCATION_RESOURCES: resource.fpga: 'x'"),
        (
            "TENURE_ALLOCATION_RESOURCES",
            "fpga=1,ephemeral-storage=1Gi",
            "TENURE_ALLOCATION_RESOURCES: .* write 'TENURE_ALLOCATION_EPHEMERAL_STORAGE=1Gi' instead",
        ),
        ("TENURE_ALLOCATION_LABELS", "zone=a b", "TENURE_ALLOCATION_LABELS: label.zone: 'a b'"),
        ("TENURE_ALLOCATION_LABELS", "eu", "TENURE_ALLOCATION_LABELS: 'eu' is not name=value"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{says}"):
        Allocation.from_environment({"TENURE_ALLOCATION_GPU": "1", variable: text})


def test_flags_lie_over_the_environment() -> None:
    told = Allocation(cpu=2, label={"zone": "eu"}).overlaid_by(Allocation(cpu=0, label={"disk": "ssd"}))
    assert told == Allocation(cpu=0, label={"zone": "eu", "disk": "ssd"})
