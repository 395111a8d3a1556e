"""Reading closed segments back: what is found, what is kept of it, and when it counts no more (RL132)."""

from data_plane.disk.port import ReadAt
from data_plane.log import layout
from data_plane.log.reading import ColdRead
from data_plane.log.scrub import Finding, SegmentCheck
from data_plane.testkit.disk import SimDisk
from tests.unit.log.batches import NOW_MS, made_batch
from tests.unit.log.miniature import Miniature, reopened, where


def filled(batches: int = 30) -> Miniature:
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    miniature.fill(batches, body_bytes=400)
    return miniature


def readers(check: SegmentCheck) -> list[ReadAt]:
    return [file.read_at for file in check.files]


def read_back(miniature: Miniature, number: int = 0) -> SegmentCheck:
    scrub = miniature.log.scrub
    check = scrub.begin(scrub.closed(miniature.log.high_watermark)[number])
    while not check.done:
        assert check.step(*readers(check)) > 0
    return check


def verify_all(miniature: Miniature, at_ms: int = NOW_MS) -> list[Finding]:
    scrub = miniature.log.scrub
    for number in range(len(scrub.closed(miniature.log.high_watermark))):
        check = read_back(miniature, number)
        assert scrub.end(check) and check.damage is None
        scrub.found_whole(check, at_ms)
    return scrub.findings(miniature.log.high_watermark)


def path_of(miniature: Miniature, number: int, suffix: str) -> str:
    base = miniature.log._segments.all[number].base_offset
    return layout.segment_file(layout.partition_directory(where()), base, suffix)


def medium_of(miniature: Miniature) -> SimDisk:
    assert isinstance(miniature.disk, SimDisk)
    return miniature.disk


def test_all_closed_segments_and_never_the_active_one_are_read_back() -> None:
    miniature = filled()
    found = verify_all(miniature)
    assert len(found) == miniature.log.segment_count - 1
    assert [one.base_offset for one in found[1:]] == [one.end_offset for one in found[:-1]]
    assert found[-1].end_offset == miniature.log._segments.all[-1].base_offset


def test_replicas_with_the_same_bytes_find_the_same() -> None:
    assert verify_all(filled()) == verify_all(filled())
    other = Miniature(tail_bytes=0)
    other.create()
    other.append(batch=made_batch(2, 400, fill=77))
    other.commit()
    other.fill(29, body_bytes=400)
    assert verify_all(other)[0].digest != verify_all(filled())[0].digest


def test_every_flipped_byte_of_a_closed_segment_is_found() -> None:
    miniature = filled(12)
    disk = medium_of(miniature)
    for suffix, first in ((layout.LOG_SUFFIX, 0), (layout.STAMPS_SUFFIX, 64)):
        path = path_of(miniature, 0, suffix)
        size = (
            miniature.log._segments.all[0].size
            if first == 0
            else 64 * miniature.log._segments.all[0].stamp_count
        )
        for position in range(first, first + size, 13):
            disk.medium.flip(path, position, position % 8)
            check = read_back(miniature)
            assert check.damage is not None, f"{suffix} byte {position}"
            miniature.log.scrub.end(check)
            disk.medium.flip(path, position, position % 8)


def test_a_bad_sector_is_damage_of_its_batch() -> None:
    miniature = filled()
    medium_of(miniature).medium.spoil(path_of(miniature, 1, layout.LOG_SUFFIX), 0, 1)
    base = miniature.log._segments.all[1].base_offset
    damage = read_back(miniature, 1).damage
    assert damage is not None
    assert (damage.first_offset, damage.end_offset) == (base, base + 2)


def test_what_was_found_is_known_after_a_restart() -> None:
    miniature = filled()
    found = verify_all(miniature)
    miniature.checkpoint()
    again = reopened(medium_of(miniature))
    assert again.log.scrub.findings(again.log.high_watermark) == found


def test_a_finding_of_another_history_does_not_count() -> None:
    """The log is cut and grows again to segments of the very same bounds."""
    miniature = filled()
    found = verify_all(miniature)
    miniature.truncate(0, declared=True)
    for number in range(30):
        miniature.append(epoch=2, batch=made_batch(2, 400, fill=number))
        miniature.commit()
    assert [s.end_offset for s in miniature.log._segments.all[:-1]] == [one.end_offset for one in found]
    assert miniature.log.scrub.findings(miniature.log.high_watermark) == []


def test_a_segment_that_goes_while_it_is_read_back_is_not_judged() -> None:
    miniature = filled()
    scrub = miniature.log.scrub
    check = scrub.begin(scrub.closed(miniature.log.high_watermark)[0])
    miniature.truncate(2, declared=True)
    while not check.done:
        check.step(*readers(check))
    assert check.damage is not None, "it sees a file that is shorter than it was"
    assert not scrub.end(check)


def test_the_files_of_a_segment_are_closed_when_its_last_reader_and_its_check_are_done() -> None:
    for check_ends_last in (False, True):
        miniature = filled()
        miniature.checkpoint()
        log = miniature.log
        segment = log._segments.all[0]
        cold, check = log.read(0, 2, 1_000), log.scrub.begin(segment)
        assert isinstance(cold, ColdRead) and check.files
        if not check_ends_last:
            assert log.scrub.end(check) and segment._data is not None
        log.forget(cold)
        if check_ends_last:
            assert segment._data is not None
            assert log.scrub.end(check)
        log.release_files()
        assert segment._data is None and segment._stamps is None


def test_damage_is_refetched_from_the_base_of_its_segment_on_and_served_no_more() -> None:
    miniature = filled()
    disk = medium_of(miniature)
    disk.medium.flip(path_of(miniature, 1, layout.LOG_SUFFIX), 700, 2)
    check = read_back(miniature, 1)
    log = miniature.log
    assert log.scrub.end(check) and check.damage is not None
    log.scrub.found_damage(check.damage)
    assert log.damage == (check.damage,)
    base = log._segments.all[1].base_offset
    assert log.scrub.refetch_from() == base < check.damage.first_offset
    miniature.truncate(base, declared=True)
    assert log.log_end_offset == base and log.damage == ()
    aside = path_of(filled(), 1, layout.LOG_SUFFIX) + layout.SET_ASIDE_SUFFIX
    assert disk.exists(aside), "the spoilt segment is kept"
