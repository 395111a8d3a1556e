"""Imports data sets: each run once, in one transaction, identified by its run id and digest.

A run says its whole data set, in windows with a digest each. The import reads the windows whose digests are not those
of the last imported run, writes rows of them that differ and removes rows that are gone, with two exceptions: the usage
of cuts whose invoice is issued, and seals, never change.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from billing.cost_models import PrincipalDay
from billing.data_sets import (
    ALL_ROWS,
    DataSet,
    DataSetRefused,
    Manifest,
    changed_windows,
    current_manifest,
    cut_window,
    read_data_set,
)
from billing.models import (
    CoverageIssue,
    Cut,
    CutCoverage,
    CutUsage,
    DataSetRun,
    DataSetState,
    Invoice,
    Seal,
    SlaWindow,
    UsageDay,
)
from billing.service_level_models import LatencyDay, SlaMinute, SlaSlow
from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from daemon.data_set_store import DataSetStore
from penstock.contract.ids import SYSTEM_TENANT
from penstock.records.seal import SealCorrupt, unpack_seal
from tenants.models import Tenant

IMPORTER = system("billing.import")
ORDER = (
    "seal", "cut_usage", "cut_coverage", "usage_day", "principal_day", "sla_5m", "sla_minute", "sla_slow_5m",
    "latency_day", "coverage_issue",
)  # fmt: skip
"""Usage before coverage, so that the usage of every coverage row is there."""
BIGGEST = 2**63 - 1
MINUTES_A_DAY = 1_440
_EPOCH = date(1970, 1, 1)
RUN_OF_WINDOWS = "run of these"
"""Beside the digests of windows: the run that they were imported from."""
WAITING = "tenants that are not known"
"""Beside them: ids of tenants that are not known here, and windows with rows of theirs."""
_WAITING_MAX = 1_000
"""Of these tenants; rows of more come when their windows change."""
RUNS_KEPT = 1_000
"""Of each data set: the runs of several hours."""
_CHUNK = 500
_DISAGREEMENTS_MAX = 100
Row = Mapping[str, Any]
_Imported = tuple[int, int, list[str]]
"""(rows written or removed, rows skipped, disagreements)."""
_log = logging.getLogger(__name__)


def import_data_sets(store: DataSetStore) -> dict[str, str]:
    """Import the current run of every data set that has a new one. Returns `imported` or the reason, by data set.

    A refused data set does not change the rows of its last import, and the others are still imported.
    """
    outcomes: dict[str, str] = {}
    for name in ORDER:
        try:
            if _import_one(store, name):
                outcomes[name] = "imported"
        except DataSetRefused as refused:
            _note_refused(name, str(refused))
            outcomes[name] = str(refused)
        except Exception:
            # A fault of the service. The other data sets are still imported.
            _log.exception("data set import failed", extra={"data_set": name})
            outcomes[name] = f"{name}: the import failed; see the log"
            _note_refused(name, outcomes[name])
    return outcomes


def _import_one(store: DataSetStore, name: str) -> bool:
    manifest = current_manifest(store, name)
    if manifest is None:
        return False
    state, _ = DataSetState.objects.get_or_create(dataset=name)
    known = DataSetRun.objects.filter(dataset=name, run_id=manifest.run_id).first()
    if known is not None and known.digest != manifest.digest:
        raise DataSetRefused(
            f"{name} run {manifest.run_id}: imported with digest {known.digest}, the manifest now has {manifest.digest}"
        )
    if _is_imported(manifest, state):
        return False
    windows = _to_import(manifest, state)
    data = read_data_set(store, manifest, windows)
    with transaction.atomic():
        state = DataSetState.objects.select_for_update(no_key=True).get(dataset=name)
        if _is_imported(manifest, state):
            return False
        if windows != _to_import(manifest, state):
            return False  # another worker has imported a run meanwhile; the next import finds what is left
        tenants = _tenants(data)
        changed, skipped, disagreements = _IMPORTERS[name](data, tenants)
        DataSetRun.objects.update_or_create(
            dataset=name,
            run_id=data.run_id,
            defaults={
                "digest": data.digest,
                "code_version": data.code_version[:64],
                "inputs": dict(data.inputs),
                "rows": sum(window.rows for window in manifest.windows.values()),
                "skipped": skipped,
                "disagreements": disagreements[:_DISAGREEMENTS_MAX],
                "imported_at": timezone.now(),
            },
        )
        state.run_id, state.error = data.run_id, ""
        state.windows = {
            **_waiting_after(data, tenants, manifest, state),
            RUN_OF_WINDOWS: data.run_id,
            **{name: window.digest for name, window in manifest.windows.items()},
        }
        state.save(update_fields=["run_id", "error", "windows"])
        _forget_runs(name)
        if changed or disagreements:
            audit.record(
                IMPORTER,
                tenant=SYSTEM_TENANT,
                action="data_set.import",
                object_id=f"{name}/{data.run_id}",
                after={"changed": changed, "digest": data.digest, "disagreements": len(disagreements)},
            )
    return True


def _is_imported(manifest: Manifest, state: DataSetState) -> bool:
    return state.run_id == manifest.run_id and not state.error and not _has_come(state)


def _to_import(manifest: Manifest, state: DataSetState) -> frozenset[str] | None:
    """The windows that are not as they were imported; None: all rows, whatever windows they were imported in. An older
    version of the service, which knows no windows, may have imported another run meanwhile.
    """
    imported = dict(state.windows)
    waiting = imported.pop(WAITING, None)
    if imported.pop(RUN_OF_WINDOWS, "") != state.run_id:
        return None
    windows = changed_windows(manifest, imported)
    if waiting is not None and _has_come(state):
        windows |= frozenset(waiting["windows"])
    return windows if imported and ALL_ROWS not in windows else None


def _has_come(state: DataSetState) -> bool:
    """Whether a tenant is known now that was not when its rows were read."""
    waiting = state.windows.get(WAITING)
    return waiting is not None and Tenant.objects.filter(public_id__in=waiting["tenants"]).exists()


def _waiting_after(
    data: DataSet, tenants: Mapping[str, Tenant], manifest: Manifest, state: DataSetState
) -> dict[str, Any]:
    """The entry `WAITING` after an import, if any tenant is not known."""
    before = state.windows.get(WAITING, {"tenants": [], "windows": []})
    unknown = {str(row["tenant"]) for row in data.rows if "tenant" in row} - {SYSTEM_TENANT, *tenants}
    read = set(manifest.windows) if data.windows is None else set(data.windows)
    windows = (set(before["windows"]) - read) | (read if unknown else set())
    if windows & set(before["windows"]) - read:
        unknown |= set(before["tenants"])
    if not unknown:
        return {}
    found = {
        "tenants": sorted(unknown)[:_WAITING_MAX],
        "windows": sorted(windows & set(manifest.windows)),
    }
    return {WAITING: found}


def _note_refused(name: str, message: str) -> None:
    with transaction.atomic():
        state, _ = DataSetState.objects.select_for_update(no_key=True).get_or_create(dataset=name)
        if state.error != message:
            state.error = message
            state.save(update_fields=["error"])


def _forget_runs(name: str) -> None:
    """Delete old runs that agreed with every invoice. Each round of the pipeline can add a run."""
    kept = DataSetRun.objects.filter(dataset=name).order_by("-imported_at").values_list("pk", flat=True)
    old = list(kept[RUNS_KEPT : RUNS_KEPT + _CHUNK])
    DataSetRun.objects.filter(pk__in=old, disagreements=[]).delete()


# -- one data set each ------------------------------------------------------------------------------------------


def _import_usage_days(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _sync(
        UsageDay,
        data,
        tenants,
        key=("topic_id", "topic", "day", "meter"),
        values=("quantity",),
        time="day",
    )


def _import_principal_days(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _sync(
        PrincipalDay,
        data,
        tenants,
        key=("topic_id", "topic", "day", "principal", "group", "meter"),
        values=("quantity",),
        time="day",
    )


def _import_sla(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _sync(
        SlaWindow, data, tenants, key=("operation", "window"), values=("valid", "bad"), time="window"
    )


def _import_sla_minutes(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _sync(
        SlaMinute,
        data,
        tenants,
        key=("operation", "minute"),
        values=("valid", "bad", "succeeded_seconds", "failed_seconds"),
        time="minute",
    )


def _import_slow(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _sync(
        SlaSlow, data, tenants, key=("operation", "window", "over_ms"), values=("slow",), time="window"
    )


def _import_latencies(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _sync(
        LatencyDay, data, tenants, key=("operation", "day", "bucket"), values=("requests",), time="day"
    )


def _import_issues(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    """Missing offsets of `__usage`; these rows belong to no tenant, and are one window."""
    if data.windows is not None and not data.windows:
        return 0, 0, []
    key, values = ("src_partition", "first_missing"), ("missing",)
    wanted: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in data.rows:
        _add(data, wanted, tuple(row[name] for name in key), _checked(data, row, key, values))
    known = {
        tuple(row[name] for name in key): row for row in CoverageIssue.objects.values("pk", *key, *values)
    }
    return _write(CoverageIssue, wanted, known, values), 0, []


def _import_cut_usage(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _import_of_cuts(
        CutUsage,
        data,
        key=("topic_id", "topic", "partition", "log_generation", "day", "meter"),
        values=("quantity", "first_offset", "end_offset"),
    )


def _import_cut_coverage(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    return _import_of_cuts(
        CutCoverage,
        data,
        key=("topic_id", "partition", "log_generation"),
        values=("topic", "start_offset", "end_offset", "status", "reason", "missing"),
    )


def _import_seals(data: DataSet, tenants: Mapping[str, Tenant]) -> _Imported:
    """Adds new seals. No seal is changed or removed."""
    key = ("topic_id", "partition", "log_generation", "base_offset")
    topics = sorted({str(row["topic_id"]) for row in data.rows})
    known = {
        (seal.tenant_id, *(getattr(seal, name) for name in key)): bytes(seal.seal)
        for at in range(0, len(topics), _CHUNK)
        for seal in Seal.objects.filter(topic_id__in=topics[at : at + _CHUNK]).iterator()
    }
    skipped, disagreements, fresh = 0, [], []
    for row in data.rows:
        tenant = tenants.get(row["tenant"])
        if tenant is None:
            skipped += 1
            continue
        key_values = (tenant.pk, *(row[name] for name in key))
        content = bytes(row["seal"])
        stored = known.get(key_values)
        named = f"seal of {row['topic_id']}-{row['partition']} at offset {row['base_offset']}"
        try:
            unpack_seal(content)
        except SealCorrupt as error:
            disagreements.append(f"{named}: {error}")
            skipped += 1
            continue
        if stored is None:
            fresh.append(
                Seal(
                    tenant=tenant,
                    **{name: row[name] for name in key},
                    end_offset=row["end_offset"],
                    seal=content,
                    src_partition=row["src_partition"],
                    src_offset=row["src_offset"],
                )
            )
        elif stored != content:
            disagreements.append(f"{named}: another seal of it was imported before")
    Seal.objects.bulk_create(fresh, batch_size=_CHUNK)
    return len(fresh), skipped, disagreements


_IMPORTERS: dict[str, Callable[[DataSet, Mapping[str, Tenant]], _Imported]] = {
    "seal": _import_seals,
    "cut_usage": _import_cut_usage,
    "cut_coverage": _import_cut_coverage,
    "usage_day": _import_usage_days,
    "principal_day": _import_principal_days,
    "sla_5m": _import_sla,
    "sla_minute": _import_sla_minutes,
    "sla_slow_5m": _import_slow,
    "latency_day": _import_latencies,
    "coverage_issue": _import_issues,
}


# -- how rows become what the run says ----------------------------------------------------------------------------


def _tenants(data: DataSet) -> dict[str, Tenant]:
    """The tenants of the rows by public id; the service's own is none that is billed."""
    named = sorted({str(row["tenant"]) for row in data.rows if "tenant" in row} - {SYSTEM_TENANT})
    found: dict[str, Tenant] = {}
    for at in range(0, len(named), _CHUNK):
        for tenant in Tenant.objects.filter(public_id__in=named[at : at + _CHUNK]):
            found[tenant.public_id] = tenant
    return found


def _sync(
    model: type[models.Model],
    data: DataSet,
    tenants: Mapping[str, Tenant],
    *,
    key: Sequence[str],
    values: Sequence[str],
    time: str,
) -> _Imported:
    """Make the table what the run says, on the days that were read: windows are days of the column `time`."""
    skipped = 0
    wanted: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in data.rows:
        tenant = tenants.get(row["tenant"])
        if tenant is None:
            skipped += 1
            continue
        if not data.has(_day_of(row[time])):
            raise DataSetRefused(f"{data.name} run {data.run_id}: a row of {row[time]} is in another window")
        key_values = (tenant.pk, *(row[name] for name in key))
        _add(data, wanted, key_values, _checked(data, row, key, values) | {"tenant": tenant})
    manager = model._default_manager
    known = {
        (row["tenant_id"], *(row[name] for name in key)): row
        for row in manager.filter(_on_days(data, time)).values("pk", "tenant_id", *key, *values).iterator()
    }
    return _write(model, wanted, known, values), skipped, []


def _day_of(moment: date | int) -> str:
    """Of a day, a time, or a minute since 1970."""
    if isinstance(moment, int):
        moment = _EPOCH + timedelta(days=moment // MINUTES_A_DAY)
    return f"{moment:%Y-%m-%d}"


def _on_days(data: DataSet, time: str) -> models.Q:
    """Rows of the windows that were read."""
    if data.windows is None:
        return models.Q()
    rows = models.Q(pk__in=())
    for name in sorted(data.windows):
        try:
            day = date.fromisoformat(name)
        except ValueError as error:
            raise DataSetRefused(f"{data.name} run {data.run_id}: the window {name!r} is no day") from error
        if time == "day":
            rows |= models.Q(day=day)
        elif time == "minute":
            first = (day - _EPOCH).days * MINUTES_A_DAY
            rows |= models.Q(minute__gte=first, minute__lt=first + MINUTES_A_DAY)
        else:
            begin = datetime.combine(day, datetime.min.time(), UTC)
            rows |= models.Q(**{f"{time}__gte": begin, f"{time}__lt": begin + timedelta(days=1)})
    return rows


def _import_of_cuts(
    model: type[CutUsage] | type[CutCoverage], data: DataSet, *, key: Sequence[str], values: Sequence[str]
) -> _Imported:
    """Rows by cut, of those whose window was read. A cut whose invoice is issued is compared only."""
    changed = skipped = 0
    disagreements: list[str] = []
    by_cut: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for row in data.rows:
        key_values = tuple(row[name] for name in key)
        _add(data, by_cut.setdefault(row["cut_id"], {}), key_values, _checked(data, row, key, values))
    tenant_of = {row["cut_id"]: row["tenant"] for row in data.rows}
    # `finalize` takes the same lock, so that no row changes while an invoice is issued.
    drafts = (
        Cut.objects.select_for_update(of=("self",), no_key=True)
        .filter(invoice__status=Invoice.Status.DRAFT)
        .order_by("pk")
    )
    cuts = {
        cut.public_id: cut for cut in drafts.select_related("tenant") if data.has(cut_window(cut.public_id))
    }
    issued = {
        cut.public_id: cut
        for cut in _by_public_id(sorted(by_cut)).select_related("tenant")
        if cut.public_id not in cuts
    }
    for cut_id in sorted({*by_cut, *cuts}):
        rows = by_cut.get(cut_id, {})
        cut = cuts.get(cut_id) or issued.get(cut_id)
        if cut is None or tenant_of.get(cut_id, cut.tenant.public_id) != cut.tenant.public_id:
            skipped += len(rows)
            continue
        known = {
            tuple(row[name] for name in key): row
            for row in model._default_manager.filter(cut=cut).values("pk", *key, *values)
        }
        if cut_id in cuts:
            owner = {"cut": cut} | ({"tenant": cut.tenant} if model is CutUsage else {})
            wanted = {key_values: row | owner for key_values, row in rows.items()}
            changed += _write(model, wanted, known, values)
        else:
            without = [name for name in key if name != "topic"]
            compared = [name for name in values if name != "topic"]
            now, then = (_without_names(some.values(), without, compared) for some in (rows, known))
            disagreements.extend(_differences(cut_id, now, then, compared))
    return changed, skipped, disagreements


def _add(
    data: DataSet,
    rows: dict[tuple[Any, ...], dict[str, Any]],
    key_values: tuple[Any, ...],
    fields: dict[str, Any],
) -> None:
    """Add a row. Raises `DataSetRefused` for a second one with the same key: one of the two would be lost."""
    if key_values in rows:
        raise DataSetRefused(f"{data.name} run {data.run_id}: two rows of {'/'.join(map(str, key_values))}")
    rows[key_values] = fields


def _without_names(
    rows: Iterable[Row], key: Sequence[str], values: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by their key without the topic's name, which is a label: ranges that differ by it alone are one."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        fields = {name: row[name] for name in values}
        other = merged.setdefault(tuple(row[name] for name in key), fields)
        if other is not fields:
            other["quantity"] += fields["quantity"]
            other["first_offset"] = min(other["first_offset"], fields["first_offset"])
            other["end_offset"] = max(other["end_offset"], fields["end_offset"])
    return merged


def _by_public_id(ids: Sequence[str]) -> models.QuerySet[Cut]:
    return Cut.objects.filter(public_id__in=ids)


def _differences(
    cut_id: str,
    rows: Mapping[tuple[Any, ...], Row],
    known: Mapping[tuple[Any, ...], Row],
    values: Sequence[str],
) -> Iterable[str]:
    for key_values in sorted({*rows, *known}, key=str):
        now, then = rows.get(key_values), known.get(key_values)
        if now is None or then is None or any(now[name] != then[name] for name in values):
            shown = None if now is None else {name: now[name] for name in values}
            stored = None if then is None else {name: then[name] for name in values}
            yield f"{cut_id} {'/'.join(map(str, key_values))}: invoiced {stored}, now {shown}"


def _write(
    model: type[models.Model],
    wanted: Mapping[tuple[Any, ...], Row],
    known: Mapping[tuple[Any, ...], Row],
    values: Sequence[str],
) -> int:
    """Change the stored rows from `known` to `wanted`. Returns how many rows were written or removed."""
    manager = model._default_manager
    gone = [row["pk"] for key_values, row in known.items() if key_values not in wanted]
    for at in range(0, len(gone), _CHUNK):
        manager.filter(pk__in=gone[at : at + _CHUNK]).delete()
    fresh = [model(**fields) for key_values, fields in wanted.items() if key_values not in known]
    manager.bulk_create(fresh, batch_size=_CHUNK)
    changed = [
        model(pk=known[key_values]["pk"], **fields)
        for key_values, fields in wanted.items()
        if key_values in known and any(known[key_values][name] != fields[name] for name in values)
    ]
    manager.bulk_update(changed, values, batch_size=_CHUNK)
    return len(gone) + len(fresh) + len(changed)


def _checked(data: DataSet, row: Row, key: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """The row's fields. Raises `DataSetRefused` when they cannot be stored."""
    fields = {name: row[name] for name in (*key, *values)}
    for name, value in fields.items():
        if value is None or (isinstance(value, int) and not -BIGGEST <= value <= BIGGEST):
            raise DataSetRefused(f"{data.name} run {data.run_id}: {name} is {value!r}, 64 bits required")
    return fields
