"""A folder and a bucket keep published data sets in the same way: whole, once, found by name."""

import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from daemon.bucket_store import BucketStore
from daemon.data_set_store import BucketSettings, DataSetStore, FolderStore, StoreUnavailable
from daemon.data_set_stores import open_store
from daemon.settings import Refused
from tests.integration.buckets import NAME, SECRET_KEY, Bucket, bucket
from tests.waiting import wait_until

RUN, OTHER = "a" * 32, "b" * 32
SET = "usage_day"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket(tmp_path_factory.mktemp("bucket")) as made:
        yield made


def another(settings: BucketSettings, prefix: Path) -> BucketStore:
    """The store of a prefix of its own, so that tests can share a bucket."""
    values = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return BucketStore(BucketSettings(**values | {"prefix": prefix.name}))


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.processes)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DataSetStore:
    if request.param == "folder":
        return FolderStore(tmp_path / "below" / "datasets")
    storage: Bucket = request.getfixturevalue("storage")
    return another(storage.settings, tmp_path)


def pending(store: DataSetStore, name: str, content: bytes = b"rows") -> Path:
    """A folder with one file, where the pipeline writes it: for a folder beside its runs."""
    assert isinstance(store, FolderStore | BucketStore)
    at = store.folder / SET if isinstance(store, FolderStore) else Path(name).parent
    folder = at / f".pending-{Path(name).name}"
    folder.mkdir(parents=True)
    (folder / f"part-{Path(name).name}.parquet").write_bytes(content)
    return folder


def publish(store: DataSetStore, tmp_path: Path, run: str, writer: str = "one") -> bytes:
    folder = pending(store, str(tmp_path / f"{run[:4]}-{writer}"))
    manifest = json.dumps({"run_id": run, "files": [file.name for file in folder.iterdir()]}).encode()
    published = store.publish(SET, run, folder, manifest)
    assert len(list(published.folder.glob("*.parquet"))) == 1, "its rows can be read on this machine"
    return published.manifest


def is_whole(store: DataSetStore, run: str) -> bool:
    """Every file that its manifest names is there."""
    manifest = store.manifest(SET, run)
    return manifest is not None and all(
        store.file(SET, run, name) == b"rows" for name in json.loads(manifest)["files"]
    )


def test_before_the_first_run_nothing_is_there(store: DataSetStore) -> None:
    assert store.current(SET) is None
    assert store.manifest(SET, RUN) is None
    assert store.file(SET, RUN, "part-0.parquet") is None
    store.remove_old_runs(SET, RUN, 5)


def test_a_run_is_read_as_it_was_published(store: DataSetStore, tmp_path: Path) -> None:
    manifest = publish(store, tmp_path, RUN)
    assert store.manifest(SET, RUN) == manifest and is_whole(store, RUN)
    assert store.current(SET) is None, "published, and not yet current"
    for content in (b'{"run_id": "1"}', b'{"run_id": "2"}'):
        store.make_current(SET, content)
        assert store.current(SET) == content


def test_files_are_there_or_not_each_by_its_run_and_name(store: DataSetStore, tmp_path: Path) -> None:
    assert store.has(SET, []) and not store.has(SET, [(RUN, "part-0.parquet")])
    files = {}
    for run in (RUN, OTHER):
        files[run] = json.loads(publish(store, tmp_path, run))["files"][0]
    assert store.has(SET, [(RUN, files[RUN]), (OTHER, files[OTHER])])
    for missing in ((RUN, files[OTHER]), ("c" * 32, files[RUN]), (RUN, "another.parquet")):
        assert not store.has(SET, [(RUN, files[RUN]), missing]), missing


def test_a_run_whose_files_are_gone_is_published_again(store: DataSetStore, tmp_path: Path) -> None:
    """Whether its own or those of an earlier run that it names; a whole one stays as it is."""
    publish(store, tmp_path, OTHER)
    (other,) = files_named(store, OTHER)

    def again(writer: str, *, names_other: bool = False) -> list[str]:
        folder = pending(store, str(tmp_path / writer))
        (own,) = folder.iterdir()
        files = [{"name": own.name}, *([{"name": other, "run": OTHER}] if names_other else [])]
        store.publish(SET, RUN, folder, json.dumps({"run_id": RUN, "files": files}).encode())
        return [str(one["name"]) for one in files_named(store, RUN)]

    first = again("first", names_other=True)
    assert again("second") == first
    remove(store, OTHER, other)
    assert again("third") == ["part-third.parquet"]
    assert store.file(SET, RUN, "part-third.parquet") == b"rows"
    remove(store, RUN, "part-third.parquet")
    assert again("fourth") == ["part-fourth.parquet"]
    assert again("fifth") == ["part-fourth.parquet"]


def files_named(store: DataSetStore, run: str) -> list[Any]:
    manifest = store.manifest(SET, run)
    assert manifest is not None
    return list(json.loads(manifest)["files"])


def remove(store: DataSetStore, run: str, name: str) -> None:
    """As a hand from outside does it."""
    if isinstance(store, FolderStore):
        (store.run_folder(SET, run) / name).unlink()
    else:
        assert isinstance(store, BucketStore)
        store._delete([f"{store._prefix}{SET}/run={run}/{name}"])


def pointer(run: str, number: int) -> bytes:
    return json.dumps({"run_id": run, "number": number}).encode()


def test_a_runner_that_was_replaced_changes_nothing_that_is_read(store: DataSetStore) -> None:
    assert store.number(SET) == 0
    store.make_current(SET, b'{"run_id": "of the time before numbers"}')
    assert store.number(SET) == 0
    store.make_current(SET, pointer(RUN, 1), 1)
    assert store.current(SET) == pointer(RUN, 1)
    store.make_current(SET, pointer(RUN, 2), 2)
    for late in (pointer(OTHER, 1), pointer(RUN, 1)):
        store.make_current(SET, late, 1)
        assert store.current(SET) == pointer(RUN, 2)
    store.make_current(SET, pointer(OTHER, 2), 2)
    store.make_current(SET, b'{"run_id": "of the time before numbers"}')
    assert store.current(SET) == pointer(OTHER, 2) and store.number(SET) == 2


def test_of_two_runners_at_once_the_later_one_counts(store: DataSetStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(1, 9):
            pool.submit(store.make_current, SET, pointer(RUN, number), number)
    assert store.current(SET) == pointer(RUN, 8)


@pytest.mark.processes
def test_a_pointer_that_changes_between_look_and_put_is_looked_at_again(
    storage: Bucket, tmp_path: Path
) -> None:
    """The earlier runner was paused there, before there was a pointer and when there was one."""
    earlier, later = another(storage.spoiled, tmp_path), another(storage.settings, tmp_path)
    for number in (1, 3):
        newer = [pointer(OTHER, number + 1)]

        def overtaken(method: str, path: str, newer: list[bytes] = newer, number: int = number) -> bool:
            if method == "PUT" and newer:
                later.make_current(SET, newer.pop(), number + 1)
            return False

        storage.spoiler.keeps_back = overtaken
        try:
            earlier.make_current(SET, pointer(RUN, number), number)
        finally:
            storage.spoiler.keeps_back = lambda method, path: False
        assert not newer
        assert later.current(SET) == pointer(OTHER, number + 1)


def test_pointers_of_long_ago_go_and_other_files_stay(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    (tmp_path / SET).mkdir()
    (tmp_path / SET / "current-notes.json").write_text("{}")
    for number in (0, 9, 10, 11):
        store.make_current(SET, pointer(RUN, number), number)
    assert sorted(file.name for file in (tmp_path / SET).iterdir()) == [
        "current-0000000010.json",
        "current-0000000011.json",
        "current-notes.json",
    ]


def test_a_run_that_is_there_is_never_changed(store: DataSetStore, tmp_path: Path) -> None:
    first = publish(store, tmp_path, RUN)
    assert publish(store, tmp_path, RUN, "two") == first
    assert store.manifest(SET, RUN) == first and is_whole(store, RUN)


def test_of_writers_at_once_one_publishes(store: DataSetStore, tmp_path: Path) -> None:
    writers = [f"writer{number}" for number in range(8)]
    with ThreadPoolExecutor(len(writers)) as pool:
        manifests = set(pool.map(lambda writer: publish(store, tmp_path, RUN, writer), writers))
    assert manifests == {store.manifest(SET, RUN)}
    assert is_whole(store, RUN)


def test_old_runs_go_and_the_newest_and_the_current_one_stay(store: DataSetStore, tmp_path: Path) -> None:
    runs = [letter * 32 for letter in "abcd"]
    for run in runs:
        publish(store, tmp_path, run)
    store.remove_old_runs(SET, current=runs[0], kept=2)
    left = [run for run in runs if store.manifest(SET, run) is not None]
    assert len(left) in (2, 3) and runs[0] in left, "of runs of one second it is open which are the newest"
    assert all(is_whole(store, run) for run in left)
    store.remove_old_runs(SET, current=runs[0], kept=0, pinned=left[-1:])
    assert [run for run in runs if store.manifest(SET, run) is not None] == [runs[0], left[-1]]
    assert is_whole(store, left[-1])


def _is_over(second: int) -> bool:
    return int(time.time()) > second


@pytest.mark.processes
def test_of_runs_of_a_bucket_the_newest_stays(storage: Bucket, tmp_path: Path) -> None:
    """Its times are whole seconds."""
    store = another(storage.settings, tmp_path)
    for run in (OTHER, RUN):
        publish(store, tmp_path, run)
        wait_until("another second", partial(_is_over, int(time.time())))
    store.remove_old_runs(SET, current="c" * 32, kept=1)
    assert store.manifest(SET, OTHER) is None and is_whole(store, RUN)


@pytest.mark.processes
def test_a_run_whose_removal_is_interrupted_is_there_no_longer(storage: Bucket, tmp_path: Path) -> None:
    removals: list[str] = []

    def all_but_the_first(method: str, path: str) -> bool:
        if method != "POST":
            return False
        removals.append(path)
        return len(removals) > 1

    store = another(storage.spoiled, tmp_path)
    publish(store, tmp_path, RUN)
    storage.spoiler.keeps_back = all_but_the_first
    try:
        with pytest.raises(StoreUnavailable):
            store.remove_old_runs(SET, current=OTHER, kept=0)
    finally:
        storage.spoiler.keeps_back = lambda method, path: False
    assert store.manifest(SET, RUN) is None, "never a manifest without its files"
    assert len([name for name in storage.names() if name.startswith(f"{tmp_path.name}/")]) == 1
    store.remove_old_runs(SET, current=OTHER, kept=0)
    assert not [name for name in storage.names() if name.startswith(f"{tmp_path.name}/")]


def test_what_is_left_of_a_removed_run_is_replaced(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "datasets")
    publish(store, tmp_path, RUN)
    (store.run_folder(SET, RUN) / "manifest.json").unlink()
    folder = pending(store, str(tmp_path / "two"))
    manifest = json.dumps({"run_id": RUN, "files": ["part-two.parquet"]}).encode()
    assert store.publish(SET, RUN, folder, manifest).manifest == manifest
    assert is_whole(store, RUN) and not folder.exists()
    assert [file.name for file in (store.folder / SET).iterdir()] == [store.run_folder(SET, RUN).name]


def test_a_removed_run_leaves_nothing_in_its_folder_nor_does_one_whose_removal_was_interrupted(
    tmp_path: Path,
) -> None:
    store = FolderStore(tmp_path / "datasets")
    publish(store, tmp_path, OTHER)
    publish(store, tmp_path, RUN)
    left = store.folder / SET / f".gone-run={'c' * 32}-1-2"
    for removes in (True, False):
        left.mkdir()
        (left / "part-0.parquet").write_bytes(b"rows")
        store.remove_old_runs(SET, current=RUN, kept=1)
        names = [file.name for file in (store.folder / SET).iterdir()]
        assert names == [store.run_folder(SET, RUN).name], f"a run is removed: {removes}"


def test_files_that_a_kept_run_names_outlive_their_own_run(store: DataSetStore, tmp_path: Path) -> None:
    names = json.loads(publish(store, tmp_path, RUN))["files"]
    folder = pending(store, str(tmp_path / "other"))
    (folder / "part-carried.parquet").write_bytes(b"rows")
    entries = [{"run": RUN, "name": name} for name in names] + [{"name": "part-other.parquet"}]
    manifest = json.dumps({"run_id": OTHER, "files": entries}).encode()
    store.publish(SET, OTHER, folder, manifest)
    for _ in range(2):
        store.remove_old_runs(SET, current=OTHER, kept=0)
        assert store.manifest(SET, RUN) is None and store.manifest(SET, OTHER) == manifest
        assert [store.file(SET, RUN, name) for name in names] == [b"rows"]
    last = "c" * 32
    folder = pending(store, str(tmp_path / "last"))
    store.publish(SET, last, folder, json.dumps({"run_id": last, "files": []}).encode())
    store.remove_old_runs(SET, current=last, kept=0)
    assert [store.file(SET, RUN, name) for name in names] == [None], "no kept run names it any longer"


def test_a_folder_that_cannot_be_written_is_a_storage_that_is_away(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "datasets")
    folder = pending(store, str(tmp_path / "one"))
    store.run_folder(SET, RUN).write_text("a file where the run is to be")
    with pytest.raises(StoreUnavailable, match=f"run={RUN}"):
        store.publish(SET, RUN, folder, b"{}")
    (tmp_path / "datasets" / "seal").write_text("a file where the data set is to be")
    with pytest.raises(StoreUnavailable, match="datasets/seal: File exists"):
        store.make_current("seal", pointer(RUN, 1), 1)


def test_each_wake_up_is_another_one(store: DataSetStore) -> None:
    seen = [store.woken()]
    for _ in range(3):
        store.wake()
        seen.append(store.woken())
        assert store.woken() == seen[-1]
    assert len(set(seen)) == len(seen)


@pytest.mark.processes
def test_a_lost_answer_changes_nothing(storage: Bucket, tmp_path: Path) -> None:
    lost: set[str] = set()

    def first_of_each(method: str, path: str) -> bool:
        if method != "PUT" or path in lost:
            return False
        lost.add(path)
        return True

    storage.spoiler.loses_answer = first_of_each
    store = another(storage.spoiled, tmp_path)
    try:
        manifest = publish(store, tmp_path, RUN)
        store.make_current(SET, b'{"run_id": "1"}')
    finally:
        storage.spoiler.loses_answer = lambda method, path: False
    assert len(lost) == 3, "a file, the manifest, the current run"
    assert store.manifest(SET, RUN) == manifest and is_whole(store, RUN)
    assert store.current(SET) == b'{"run_id": "1"}'
    assert len([name for name in storage.names() if name.startswith(f"{tmp_path.name}/")]) == 3


@pytest.mark.processes
def test_a_writer_that_ends_before_the_manifest_has_published_nothing(
    storage: Bucket, tmp_path: Path
) -> None:
    storage.spoiler.keeps_back = lambda method, path: method == "PUT" and path.endswith("/manifest.json")
    store = another(storage.spoiled, tmp_path)
    try:
        with pytest.raises(
            StoreUnavailable, match=rf"s3://{NAME}/{tmp_path.name}/{SET}/run={RUN}/manifest\.json: "
        ):
            publish(store, tmp_path, RUN)
    finally:
        storage.spoiler.keeps_back = lambda method, path: False
    assert store.manifest(SET, RUN) is None
    manifest = publish(store, tmp_path, RUN, "two")
    assert store.manifest(SET, RUN) == manifest and is_whole(store, RUN)
    store.remove_old_runs(SET, current=OTHER, kept=0)
    assert [name for name in storage.names() if name.startswith(f"{tmp_path.name}/")] == [], (
        "what was left goes too"
    )


@pytest.mark.processes
def test_a_storage_that_is_away_is_named_and_its_keys_are_in_no_message_and_no_log(
    storage: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage.spoiler.keeps_back = lambda method, path: True
    store = another(storage.spoiled, tmp_path)
    try:
        with caplog.at_level(logging.INFO), pytest.raises(StoreUnavailable) as away:
            store.current(SET)
    finally:
        storage.spoiler.keeps_back = lambda method, path: False
    assert str(away.value).startswith(f"s3://{NAME}/{tmp_path.name}/{SET}/current.json: ")
    assert SECRET_KEY not in str(away.value) + caplog.text + repr(storage.settings)


@pytest.mark.processes
def test_a_bucket_that_is_not_there_is_no_empty_one(storage: Bucket, tmp_path: Path) -> None:
    values = {name: getattr(storage.settings, name) for name in storage.settings.__struct_fields__}
    store = BucketStore(BucketSettings(**values | {"name": "another-one"}))
    with pytest.raises(StoreUnavailable, match=r"s3://another-one/.*/current\.json: NoSuchBucket"):
        store.current(SET)


@pytest.mark.processes
def test_without_keys_the_message_says_so(
    storage: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    values = {name: getattr(storage.settings, name) for name in storage.settings.__struct_fields__}
    with pytest.raises(StoreUnavailable, match="none: no such file"):
        BucketStore(BucketSettings(**values | {"credentials_file": tmp_path / "none"}))
    (tmp_path / "empty").touch()
    store = BucketStore(BucketSettings(**values | {"credentials_file": tmp_path / "empty"}))
    with pytest.raises(StoreUnavailable, match="Unable to locate credentials"):
        store.current(SET)


def test_data_sets_are_in_the_bucket_where_one_is_named_and_else_in_the_folder(tmp_path: Path) -> None:
    store = open_store(tmp_path / "datasets", None)
    assert isinstance(store, FolderStore) and store.folder == tmp_path / "datasets"
    values: dict[str, Any] = {
        "name": "data-sets",
        "region": "eu-west-1",
        "endpoint_url": "https://storage.example",
    }
    assert isinstance(open_store(tmp_path / "datasets", BucketSettings(**values)), BucketStore)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"prefix": "/a"}, "prefix: a name that begins with no slash required"),
        ({"endpoint_url": "storage:9000"}, "endpoint_url: https://host:port required, 'storage:9000' given"),
        (
            {"endpoint_url": "http://storage.example:9000"},
            "endpoint_url: https required: what leaves this machine",
        ),
        ({"endpoint_url": "https://key:word@storage.example"}, "endpoint_url: holds a user or a password"),
    ],
)
def test_wrong_settings_of_a_bucket_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        BucketSettings(name="data-sets", **values)
    assert str(refused.value).startswith(said) and "key:word" not in str(refused.value)
