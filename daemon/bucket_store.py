"""A bucket of S3-style storage as the place where published data sets rest.

Imported by who has a bucket alone: the library behind it takes a quarter of a second of every start.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.client import Config
from botocore.exceptions import BotoCoreError, ClientError

from daemon.data_set_store import (
    CURRENT,
    MANIFEST,
    RUN,
    WAKE,
    BucketSettings,
    Published,
    StoreUnavailable,
    files_of,
    named_files,
)

_DELETED_AT_ONCE_MAX = 1_000
"""What S3 takes in one request."""
_CONNECT_S, _ANSWER_S, _TRIES = 5, 30, 4
_ABSENT = ("NoSuchKey", "404")
_THERE_ALREADY = "PreconditionFailed"
_PUT_MEANWHILE = (_THERE_ALREADY, "ConditionalRequestConflict")
_CHANGED_MEANWHILE = (*_PUT_MEANWHILE, *_ABSENT)
_CHANGES_MAX = 20
"""Of a pointer in a bucket by others, between looking at it and replacing it."""


class BucketStore:
    """A bucket. Files of a run have names of their own, so that two writers of one run never replace each other's; the
    manifest is put on the condition that there is none.
    """

    look_s = 5.0

    def __init__(self, settings: BucketSettings) -> None:
        self._bucket = settings.name
        self._prefix = f"{settings.prefix.rstrip('/')}/" if settings.prefix else ""
        for file in (settings.credentials_file, settings.ca_file):
            if file is not None and not file.is_file():
                raise StoreUnavailable(f"s3://{self._bucket}: {file}: no such file")
        base = botocore.session.Session()
        if settings.credentials_file is not None:
            base.set_config_variable("credentials_file", str(settings.credentials_file))
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_ANSWER_S,
            retries={"mode": "standard", "total_max_attempts": _TRIES},
        )
        try:
            self._s3: Any = boto3.Session(botocore_session=base, region_name=settings.region).client(
                "s3",
                endpoint_url=settings.endpoint_url,
                verify=None if settings.ca_file is None else str(settings.ca_file),
                config=config,
            )
        except (BotoCoreError, ValueError) as error:
            raise StoreUnavailable(f"s3://{self._bucket}: {error}") from error

    def current(self, dataset: str) -> bytes | None:
        return self._get(f"{dataset}/{CURRENT}")

    def number(self, dataset: str) -> int:
        return _number_in(self.current(dataset) or b"")

    def manifest(self, dataset: str, run_id: str) -> bytes | None:
        return self.file(dataset, run_id, MANIFEST)

    def file(self, dataset: str, run_id: str, name: str) -> bytes | None:
        return self._get(f"{dataset}/{RUN}{run_id}/{name}")

    def has(
        self,
        dataset: str,
        files: Collection[tuple[str, str]],
        sizes: Mapping[tuple[str, str], int] | None = None,
    ) -> bool:
        there = {name for _, names in self._runs(dataset).values() for name in names} if files else set()
        return all(f"{self._prefix}{dataset}/{RUN}{run}/{name}" in there for run, name in files)

    def publish(self, dataset: str, run_id: str, pending: Path, manifest: bytes) -> Published:
        run = f"{dataset}/{RUN}{run_id}"
        earlier = self._seen(f"{run}/{MANIFEST}")
        if earlier is not None and self.has(dataset, files_of(earlier[0], run_id)):
            return Published(manifest=earlier[0], folder=pending)
        condition = {"IfNoneMatch": "*"} if earlier is None else {"IfMatch": earlier[1]}
        for file in sorted(pending.iterdir()):
            with file.open("rb") as content:
                self._call("put_object", f"{run}/{file.name}", Body=content)
        try:
            self._call("put_object", f"{run}/{MANIFEST}", Body=manifest, **condition)
        except _Refused as refused:
            if refused.code not in _PUT_MEANWHILE:
                raise
            # Another writer's, or this one: an answer was lost and the request sent again.
            manifest = self.manifest(dataset, run_id) or manifest
        return Published(manifest=manifest, folder=pending)

    def make_current(self, dataset: str, content: bytes, number: int = 0) -> None:
        name = f"{dataset}/{CURRENT}"
        for _ in range(_CHANGES_MAX):
            seen = self._seen(name)
            if seen is not None and (seen[0] == content or _number_in(seen[0]) > number):
                return
            condition = {"IfNoneMatch": "*"} if seen is None else {"IfMatch": seen[1]}
            try:
                self._call("put_object", name, Body=content, **condition)
                return
            except _Refused as refused:
                # Another runner's, or this one's: an answer was lost and the request sent again.
                if refused.code not in _CHANGED_MEANWHILE:
                    raise
        raise StoreUnavailable(
            f"s3://{self._bucket}/{self._prefix}{name}: it is changed by others all the time"
        )

    def remove_old_runs(self, dataset: str, current: str, kept: int, pinned: Collection[str] = ()) -> None:
        runs = self._runs(dataset)
        newest = sorted(runs, key=lambda run: runs[run][0], reverse=True)
        whole = [run for run in newest if any(name.endswith(f"/{MANIFEST}") for name in runs[run][1])]
        left = {run for run in runs if run in whole[:kept] or run in (current, *pinned)}
        # What has no manifest may be a run that is being written: it goes when it is old.
        left |= {run for run in newest[:kept] if run not in whole}
        if len(left) == len(runs):
            return
        stays = {
            f"{self._prefix}{dataset}/{RUN}{of}/{name}"
            for of, name in named_files(self.manifest(dataset, run) for run in left)
        }
        for run in newest:
            if run not in left:
                names = [name for name in runs[run][1] if name not in stays]
                self._delete(sorted(names, key=lambda name: not name.endswith(f"/{MANIFEST}")))

    def published(self, datasets: Sequence[str]) -> object | None:
        return None

    def wake(self) -> None:
        self._call("put_object", WAKE, Body=str(time.time_ns()).encode())

    def woken(self) -> str:
        return (self._get(WAKE) or b"").decode(errors="replace")

    def _runs(self, dataset: str) -> dict[str, tuple[float, list[str]]]:
        """Run id -> (when its newest object came, the names of its objects): as far as a list tells."""
        found: dict[str, tuple[float, list[str]]] = {}
        try:
            pages = self._s3.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=f"{self._prefix}{dataset}/{RUN}"
            )
            for entry in (entry for page in pages for entry in page.get("Contents", ())):
                run = entry["Key"].removeprefix(f"{self._prefix}{dataset}/{RUN}").partition("/")[0]
                came, names = found.setdefault(run, (0.0, []))
                names.append(entry["Key"])
                found[run] = (max(came, entry["LastModified"].timestamp()), names)
        except (ClientError, BotoCoreError) as error:
            raise self._unavailable(dataset, error) from error
        return found

    def _delete(self, names: list[str]) -> None:
        """The manifest first and alone: what has none is no run."""
        for some in (names[:1], names[1:_DELETED_AT_ONCE_MAX]):
            if some:
                try:
                    self._s3.delete_objects(
                        Bucket=self._bucket,
                        Delete={"Objects": [{"Key": name} for name in some], "Quiet": True},
                    )
                except (ClientError, BotoCoreError) as error:
                    raise self._unavailable(some[0], error) from error

    def _get(self, name: str) -> bytes | None:
        seen = self._seen(name)
        return None if seen is None else seen[0]

    def _seen(self, name: str) -> tuple[bytes, str] | None:
        """Content and version of an object."""
        try:
            answer = self._call("get_object", name)
        except _Refused as refused:
            if refused.code in _ABSENT:
                return None
            raise
        try:
            content: bytes = answer["Body"].read()
        except BotoCoreError as error:
            raise self._unavailable(name, error) from error
        return content, str(answer["ETag"])

    def _call(self, method: str, name: str, **arguments: Any) -> Mapping[str, Any]:
        """Raises `_Refused` when the storage said no, and `StoreUnavailable` when it said nothing."""
        try:
            answer: Mapping[str, Any] = getattr(self._s3, method)(
                Bucket=self._bucket, Key=f"{self._prefix}{name}", **arguments
            )
        except ClientError as error:
            raise _Refused(str(self._unavailable(name, error)), _code(error)) from error
        except BotoCoreError as error:
            raise self._unavailable(name, error) from error
        return answer

    def _unavailable(self, name: str, error: Exception) -> StoreUnavailable:
        said = _code(error) if isinstance(error, ClientError) else str(error)
        return StoreUnavailable(f"s3://{self._bucket}/{self._prefix}{name}: {said}")


class _Refused(StoreUnavailable):
    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def _number_in(content: bytes) -> int:
    """The number in a pointer; 0 in one of the time before runners had numbers."""
    try:
        return int(json.loads(content)["number"])
    except (ValueError, KeyError, TypeError):
        return 0


def _code(error: ClientError) -> str:
    """The storage's own word for it; its sentence may name an access key."""
    return str(error.response.get("Error", {}).get("Code", "refused"))
