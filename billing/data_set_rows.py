"""Reads rows of published data sets when they are asked for, a window's files at a time.

The database has usage by topic and day: what is finer would be most of it, and little of that is ever looked at. What
is read here is shown and bills nothing, so a file is not compared with its manifest's hash.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from daemon.data_set_store import DataSetStore, FolderStore, StoreUnavailable
from penstock.contract.errors import BrokerUnavailable, InvalidRequest

if TYPE_CHECKING:
    from billing.data_sets import Manifest

FETCHED_BYTES_MAX = 256 * 2**20
"""Bytes of a bucket's files that are read together: they come whole. In a folder only the tenant's parts are read."""
_TRIES = 2
"""A run may go while its files are read; then those of the newest one are."""
T = TypeVar("T")

Opened = Callable[[], DataSetStore]
"""Opens the store when something of it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The run of a data set that counts now."""

    store: DataSetStore
    manifest: "Manifest | None"
    """None: no run was published yet."""

    def windows(self, *, first: str, end: str) -> list[str]:
        """Names of its windows in [first, end), in order."""
        return sorted(name for name in self._windows if first <= name < end)

    def sums(
        self,
        windows: Sequence[str],
        columns: Sequence[str],
        only: Mapping[str, str],
        between: Mapping[str, tuple[Any, Any]] = MappingProxyType({}),
        *,
        instead: str,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(window, row of `columns` and their `quantity`) in the order of windows, of the rows that have the values of
        `only` and lie in [first, end) of `between`. Rows of equal columns come as one for each part of a file, so
        memory does not grow with the file. Raises `InvalidRequest` for more than can be read; `instead` says what to
        ask for where one day alone is too much.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset
        from pyarrow.fs import LocalFileSystem

        wanted = reduce(and_, (pc.field(name) == value for name, value in only.items()))
        for name, (first, end) in between.items():
            wanted &= (pc.field(name) >= first) & (pc.field(name) < end)

        if not isinstance(self.store, FolderStore):
            self._check_fetched(windows, instead)
        for window in windows:
            for run_id, file, _, _ in self._windows[window].files:
                source: Any
                if isinstance(self.store, FolderStore):
                    source = str(self.store.run_folder(self._name, run_id) / file)
                else:
                    content = self.store.file(self._name, run_id, file)
                    if content is None:
                        raise FileNotFoundError(file)
                    source = pa.BufferReader(content)
                # The path's `run=…` is no column.
                in_folder = LocalFileSystem() if isinstance(source, str) else None
                fragment = pyarrow.dataset.ParquetFileFormat().make_fragment(source, in_folder)
                for batch in fragment.to_batches(columns=[*columns, "quantity"], filter=wanted):
                    table = pa.Table.from_batches([batch])
                    for row in table.group_by(list(columns)).aggregate([("quantity", "sum")]).to_pylist():
                        row["quantity"] = int(row.pop("quantity_sum"))
                        yield window, row

    def _check_fetched(self, windows: Sequence[str], instead: str) -> None:
        """All tenants' usage of a day is in its files, so fewer topics do not make them smaller. Raises
        `InvalidRequest`.
        """
        sizes = {window: sum(size for _, _, size, _ in self._windows[window].files) for window in windows}
        most = f"at most {FETCHED_BYTES_MAX >> 20} MiB are read for an answer"
        for window, size in sizes.items():
            if size > FETCHED_BYTES_MAX:
                raise InvalidRequest(
                    f"from: usage of {window} is {-(-size >> 20)} MiB of files, {most}; {instead}"
                )
        total = sum(sizes.values())
        if total > FETCHED_BYTES_MAX:
            raise InvalidRequest(
                f"from: usage of these {len(windows)} days is {-(-total >> 20)} MiB of files, {most}; name fewer days"
            )

    @property
    def _windows(self) -> Any:
        return {} if self.manifest is None else self.manifest.windows

    @property
    def _name(self) -> str:
        assert self.manifest is not None, "a run that was never published has no window"
        return self.manifest.name


def read(opened: Opened, data_set: str, fold: Callable[[Rows], T]) -> T:
    """What `fold` makes of the current run; it is called again when that run goes meanwhile. Raises what `fold` raises,
    and `BrokerUnavailable` where the data set cannot be read.
    """
    # They load 60 MB, which processes that read no data set do not have.
    from billing.data_sets import DataSetRefused, current_manifest

    for left in reversed(range(_TRIES)):
        try:
            store = opened()
            return fold(Rows(store=store, manifest=current_manifest(store, data_set)))
        except (DataSetRefused, StoreUnavailable, OSError) as error:
            if not left:
                raise BrokerUnavailable(f"{data_set} cannot be read now: {str(error)[:200]}") from error
    raise AssertionError("unreachable")
