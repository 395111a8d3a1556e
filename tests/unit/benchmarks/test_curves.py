"""What the curves go over, and how they are drawn."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks.curves.axes import AXES, IN_FLIGHT_BYTES, PARTITIONS, Axis, Shape
from benchmarks.curves.chart import drawn
from penstock.contract import limits


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.field)
def test_one_number_grows_along_an_axis_and_the_middle_is_on_it(axis: Axis) -> None:
    shapes = [axis.shape(value) for value in axis.values]
    assert [getattr(shape, axis.field) for shape in shapes] == sorted(axis.values)
    assert Shape() in shapes
    for shape in shapes:
        assert shape.frame_batches * shape.batch_bytes <= limits.FRAME_BYTES_MAX
        assert shape.window * shape.producers * shape.frame_batches * shape.batch_bytes <= IN_FLIGHT_BYTES


def test_producers_share_what_is_unanswered() -> None:
    assert Shape(producers=50).window * 50 == Shape().window
    assert Shape(producers=1_000).window == 1


def test_the_chart_has_a_line_of_brokers_and_one_of_the_client_for_each_axis() -> None:
    measured = {
        axis.field: {str(value): {"brokers_cpu_us": 10.0, "client_cpu_us": 2.5} for value in axis.values}
        for axis in AXES
    }
    picture = ET.fromstring(drawn(measured))
    lines = picture.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * len(AXES)
    assert len(lines[0].attrib["points"].split()) == len(PARTITIONS.values)
