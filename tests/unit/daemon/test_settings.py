"""Every process reads its configuration in one way and refuses what is wrong in one form."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta

from control_plane import config
from control_plane.config import OF_PIPELINE, Config
from daemon import settings
from daemon.settings import Refused, Secret, Settings
from penstock.contract.errors import ConfigurationError
from spark_usage import configuration
from tests.control_plane.configuration import write


class Store(Settings, frozen=True, kw_only=True, tag_field="kind", tag="store"):
    size: Annotated[int, Meta(ge=1)]

    def __post_init__(self) -> None:
        if self.size == 13:
            raise Refused("size", "13 is unlucky; another number required")


class Model(Settings, frozen=True, kw_only=True):
    file: Path
    name: Annotated[str, Meta(min_length=1)]
    where: str | Store = ""
    password: Secret = Secret("")
    folder: Path | None = None
    ratio: Annotated[float, Meta(gt=0, le=9)] = 1.0
    peers: tuple[str, ...] = ()


def read(folder: Path, values: Any, /, *others: str, **environment: str) -> Model:
    file = folder / "some.json"
    file.write_text(json.dumps(values))
    return settings.read(
        file, Model, given={"file": str(file)}, environment=environment, prefix="SOME_", others=others
    )


def test_a_model_is_read_from_file_and_environment(tmp_path: Path) -> None:
    model = read(
        tmp_path,
        {"name": "a", "folder": "/f", "peers": ["x"], "where": {"kind": "store", "size": 2}},
        SOME_NAME="b",
        SOME_RATIO="0.5",
        SOME_PEERS='["y", "z"]',
        ELSE="c",
        SOMETHING="d",
    )
    assert (model.name, model.folder, model.ratio, model.peers) == ("b", Path("/f"), 0.5, ("y", "z"))
    assert model.where == Store(size=2)
    assert model.file == tmp_path / "some.json"
    assert read(tmp_path, {"name": "a"}, SOME_WHERE="/m.db").where == "/m.db"
    assert read(tmp_path, {"name": "a"}, SOME_WHERE='{"kind": "store", "size": 3}').where == Store(size=3)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "some.json: an object required"),
        ({}, "some.json: name: missing; give it a value"),
        ({"name": ""}, "some.json: name: text that is not empty required"),
        ({"name": 1}, "some.json: name: text required, a whole number given"),
        ({"nam": "a"}, "some.json: nam: no such setting; did you mean name?"),
        ({"name": "a", "file": "/f"}, "some.json: file: no such setting; "),
        (
            {"name": "a", "zzzz": 1},
            "zzzz: no such setting; known: folder, name, password, peers, ratio, where",
        ),
        ({"name": "a", "folder": 1}, "folder: the name of a file or folder required, a whole number given"),
        ({"name": "a", "folder": ""}, "folder: the name of a file or folder required, nothing given"),
        ({"name": "a", "folder": "/a\0"}, "folder: no file can have the name '/a\\x00'"),
        ({"name": "a", "folder": "/\ud800"}, "folder: no file can have the name '/\\ud800'"),
        ({"name": "a", "password": ""}, "password: text required, nothing given"),
        ({"name": "a", "ratio": "1"}, "ratio: a number required, text given"),
        ({"name": "a", "ratio": 0}, "ratio: a number above 0 required"),
        ({"name": "a", "ratio": 9.5}, "ratio: a number of at most 9 required"),
        ({"name": "a", "peers": ["x", None]}, "peers[1]: text required, null given"),
        ({"name": "a", "where": 1}, "where: text or an object required, a whole number given"),
        ({"name": "a", "where": {"kind": "shop"}}, "where.kind: 'store' required, 'shop' given"),
        ({"name": "a", "where": {"size": 1}}, "where.kind: missing; 'store' required"),
        (
            {"name": "a", "where": {"kind": "store", "siez": 1}},
            "where.siez: no such setting; did you mean size?",
        ),
        (
            {"name": "a", "where": {"kind": "store", "size": 0}},
            "where.size: a whole number of at least 1 required",
        ),
        ({"name": "a", "where": {"kind": "store", "size": 13}}, "where.size: 13 is unlucky; another number"),
    ],
)
def test_what_is_wrong_is_told_with_file_path_fact_and_demand(tmp_path: Path, values: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        read(tmp_path, values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"name": "a", "name": "b"}', "some.json: name: it stands there twice; once required"),
        (
            '{"name": "a", "where": {"kind": "store", "size": 1, "size": 2}}',
            "some.json: size: it stands there twice",
        ),
        ("[" * 100_000, "some.json: is not JSON: nested too deep"),
        ('{"name": "a"}}', "some.json: is not JSON: "),
    ],
)
def test_a_text_that_could_be_read_in_two_ways_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "some.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        settings.read(file, Model, given={"file": str(file)})


@pytest.mark.parametrize("address", ["host", ":1", "host:", "host:x", "host:65536", "host:٣", "host:999999"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    assert settings.host_of("listen", "[::1]:65535") == "::1"
    with pytest.raises(Refused, match="listen: host:port required"):
        settings.host_of("listen", address)


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("SOME_NMAE", "a", "SOME_NMAE: no such setting; did you mean SOME_NAME?"),
        ("SOME_name", "a", "SOME_name: no such setting; did you mean SOME_NAME?"),
        (
            "SOME_WHERE",
            '{"kind": "store", "size": 1, "size": 2}',
            "SOME_WHERE: size: it stands there twice; once required",
        ),
        ("SOME_PEERS", "[" * 100_000, "SOME_PEERS: is not JSON"),
        ("SOME_RATIO", "half", "SOME_RATIO: is not JSON, as numbers, lists and objects are there"),
        ("SOME_RATIO", "[]", "SOME_RATIO: a number required, a list given"),
        (
            "SOME_WHERE",
            '{"kind": "store", "size": 0}',
            "SOME_WHERE: size: a whole number of at least 1 required",
        ),
    ],
)
def test_what_is_wrong_in_the_environment_is_told_with_its_variable(
    tmp_path: Path, variable: str, text: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match="^" + re.escape(says)):
        read(tmp_path, {"name": "a"}, **{variable: text})


def test_settings_of_others_are_passed_over_and_misspelt_ones_are_not(tmp_path: Path) -> None:
    others = ("colour", "where.shade")
    values = {"name": "a", "colour": "red", "where": {"kind": "store", "size": 1, "shade": 2}}
    assert read(tmp_path, values, *others).where == Store(size=1)
    with pytest.raises(ConfigurationError, match=r"color: no such setting; did you mean colour\?"):
        read(tmp_path, {"name": "a", "color": "red"}, *others)
    with pytest.raises(ConfigurationError, match=r"where.shad: no such setting; did you mean shade\?"):
        read(tmp_path, {"name": "a", "where": {"kind": "store", "size": 1, "shad": 2}}, *others)


def test_a_secret_is_its_text_and_is_not_shown(tmp_path: Path) -> None:
    model = read(tmp_path, {"name": "a", "password": "hidden"})
    assert model.password == "hidden"
    assert "hidden" not in repr(model)


def test_a_model_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        read(tmp_path, {"name": "a"}).name = "b"  # type: ignore[misc]


def test_the_usage_pipeline_knows_which_settings_of_the_shared_file_are_not_its_own() -> None:
    own = {path for path, _ in settings.paths(configuration.Configuration)}
    others = {path for path, _ in settings.paths(Config)}
    control_plane = {path for path in others - own if path.rpartition(".")[0] not in others - own}
    assert control_plane == configuration.OF_CONTROL_PLANE
    alone = {path for path in own - others if path.rpartition(".")[0] not in own - others}
    assert alone == OF_PIPELINE, "the control plane passes over the pipeline's own"


def test_variables_of_others_are_passed_over_and_misspelt_ones_are_not(tmp_path: Path) -> None:
    assert read(tmp_path, {"name": "a"}, "colour", SOME_COLOUR="red", SOME_RATIO="0.5").ratio == 0.5
    with pytest.raises(ConfigurationError, match=r"SOME_COLOR: no such setting; did you mean SOME_COLOUR\?"):
        read(tmp_path, {"name": "a"}, "colour", SOME_COLOR="red")
    with pytest.raises(ConfigurationError, match="SOME_FILE: no such setting"):
        read(tmp_path, {"name": "a"}, SOME_FILE="x")


def test_web_worker_and_runner_take_one_anothers_variables(tmp_path: Path) -> None:
    file = write(tmp_path, f"sqlite:///{tmp_path}/control.sqlite")
    variables = {
        "PENSTOCK_SERVER_LISTEN": "127.0.0.1:8081",
        "PENSTOCK_SERVER_RUNNER_LISTEN": "127.0.0.1:8082",
        "PENSTOCK_SERVER_STATE": str(tmp_path / "state"),
        "PENSTOCK_SERVER_PIPELINE_INTERVAL_S": "60",
    }
    served, run = config.read(file, variables), configuration.read(file, variables)
    assert (served.listen, run.runner_listen) == ("127.0.0.1:8081", "127.0.0.1:8082")
    assert served.state_directory == run.state_directory == tmp_path / "state"
    assert served.pipeline_interval_s == run.pipeline_interval_s == 60
    for read_it in (config.read, configuration.read):
        with pytest.raises(ConfigurationError, match="did you mean PENSTOCK_SERVER_LISTEN"):
            read_it(file, {"PENSTOCK_SERVER_LISTN": "x"})


def test_the_usage_pipeline_passes_over_what_is_the_control_planes_and_refuses_what_is_misspelt(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.json"
    values = {
        "brokers": {"bootstrap": ["127.0.0.1:9"], "pepper_version": 1},
        "usage_key_file": "/k",
        "datasets": "/d",
        "secret_key": "s",
    }
    file.write_text(json.dumps(values))
    assert configuration.read(file).pipeline_interval_s == 10
    file.write_text(json.dumps(values | {"pipeline_intervall_s": 5}))
    with pytest.raises(ConfigurationError, match=r"no such setting; did you mean pipeline_interval_s\?"):
        configuration.read(file)


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ({"workers": 1}, "spark.workers: no such setting; known: "),
        ({"conf": {"spark.cores.max": 4}}, "spark.conf[...]: text required, a whole number given"),
        ({"conf": {"cores": "4"}}, "spark.conf: cores: a name that begins with spark. required"),
        (
            {"conf": {"spark.sql.session.timeZone": "CET"}},
            "spark.conf: spark.sql.session.timeZone: the pipeline sets it",
        ),
        (
            {"conf": {"spark.authenticate.secret": "s3cret"}},
            "spark.conf: spark.authenticate.secret: a secret would stand",
        ),
        (
            {"conf": {"spark.hadoop.fs.s3a.access.key": "s3cret"}},
            "spark.conf: spark.hadoop.fs.s3a.access.key: a secret",
        ),
        ({"executor_wait_s": 0}, "spark.executor_wait_s: a number above 0 required"),
    ],
)
def test_settings_of_spark_that_cannot_be_right_are_refused_without_showing_a_secret(
    spark: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    values = {"brokers": {"bootstrap": ["127.0.0.1:9"]}, "usage_key_file": "/k", "datasets": "/d"}
    file.write_text(json.dumps(values | {"spark": spark}))
    with pytest.raises(ConfigurationError) as refused:
        configuration.read(file)
    assert str(refused.value).startswith(f"{file}: {said}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_local_master_is_no_cluster(master: str) -> None:
    assert not configuration.SparkConfiguration(master=master).on_cluster


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://https://host:6443", "yarn"])
def test_other_masters_are_clusters(master: str) -> None:
    assert configuration.SparkConfiguration(master=master).on_cluster
