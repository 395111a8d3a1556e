"""Where settings come from: arguments before environment before the profile file."""

from pathlib import Path

import pytest

from penstock.contract.errors import ConfigurationError
from penstock.profiles import connection_settings, profile_file, profile_in_use, read_profile

FILE = """
[default]
bootstrap = "10.0.0.1:1"

[dev]
bootstrap = ["127.0.0.1:7461", "127.0.0.1:7462"]
api_key = "penstock_dev_profile"
ca_file = "/etc/ca.pem"
api_url = "http://127.0.0.1:8000"
certificates = "for other tools"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "profiles.toml"
    path.write_text(FILE)
    return {"PENSTOCK_PROFILE_FILE": str(path)}


def test_each_setting_comes_from_the_first_place_that_has_it(environment: dict[str, str]) -> None:
    environment |= {"PENSTOCK_API_KEY": "key-of-the-environment", "PENSTOCK_CA_FILE": "/env.pem"}
    settings = connection_settings(profile="dev", ca_file="/argument.pem", environment=environment)
    assert settings.ca_file == "/argument.pem"
    assert settings.api_key == "key-of-the-environment"
    assert settings.bootstrap == ("127.0.0.1:7461", "127.0.0.1:7462")
    assert settings.api_url == "http://127.0.0.1:8000"


def test_the_profile_is_named_by_argument_then_environment_then_default(environment: dict[str, str]) -> None:
    assert connection_settings(environment=environment).bootstrap == ("10.0.0.1:1",)
    environment["PENSTOCK_PROFILE"] = "dev"
    assert len(connection_settings(environment=environment).bootstrap) == 2
    assert connection_settings(profile="default", environment=environment).bootstrap == ("10.0.0.1:1",)


def test_bootstrap_is_a_list_or_text_with_commas() -> None:
    assert connection_settings(bootstrap="a:1, b:2", environment={}).bootstrap == ("a:1", "b:2")
    assert connection_settings(bootstrap=["[::1]:5"], environment={}).bootstrap == ("[::1]:5",)
    assert connection_settings(environment={"PENSTOCK_BOOTSTRAP": "a:1,b:2"}).bootstrap == ("a:1", "b:2")


@pytest.mark.parametrize(
    "address",
    ["nowhere", "host:", ":5", "host:0", "host:65536", "host:x", "host/path:5", "user@host:5", "a host:5"],
)
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(ConfigurationError, match="is not host:port"):
        connection_settings(bootstrap=address, environment={})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://penstock.example", "grpc://broker:7461"])
def test_a_url_as_bootstrap_address_is_told_to_be_one(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is a URL, host:port required .*api_url"):
        connection_settings(bootstrap=["127.0.0.1:7461", url], environment={})


def test_without_any_address_the_remedy_is_told(tmp_path: Path) -> None:
    environment = {"PENSTOCK_PROFILE_FILE": str(tmp_path / "none.toml")}
    with pytest.raises(ConfigurationError, match="set PENSTOCK_BOOTSTRAP, or name a profile"):
        connection_settings(environment=environment)


def test_a_profile_that_does_not_exist_is_told_with_those_that_do(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"profile 'prod': not in .* which has default, dev"):
        read_profile("prod", environment)


def test_a_named_profile_without_a_file_is_an_error(tmp_path: Path) -> None:
    environment = {"PENSTOCK_PROFILE_FILE": str(tmp_path / "none.toml")}
    with pytest.raises(ConfigurationError, match="there is no profile file"):
        read_profile("dev", environment)
    assert read_profile(None, environment) == {}


def test_a_broken_file_is_told_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text("[dev\n")
    with pytest.raises(ConfigurationError, match=str(path)):
        read_profile(None, {"PENSTOCK_PROFILE_FILE": str(path)})


def test_a_field_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text('[dev]\nbootstrap = ["a:1"]\napi_key = 5\n')
    with pytest.raises(ConfigurationError, match="api_key: 5 is not text"):
        connection_settings(profile="dev", environment={"PENSTOCK_PROFILE_FILE": str(path)})


def test_the_file_is_beside_the_users_other_settings() -> None:
    assert profile_file({"XDG_CONFIG_HOME": "/config"}) == Path("/config/penstock/profiles.toml")
    assert profile_file({}) == Path("~/.config/penstock/profiles.toml").expanduser()


def profiles(tmp_path: Path, text: str, **environment: str) -> dict[str, str]:
    (tmp_path / "profiles.toml").write_bytes(text.encode("utf-8-sig"))
    return {"PENSTOCK_PROFILE_FILE": str(tmp_path / "profiles.toml"), **environment}


def table(name: str) -> str:
    return f'[{name}]\nbootstrap = "127.0.0.1:1"\napi_key = "of-{name}"\n'


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["work"], "work"),
        (["work", "dev"], "dev"),
        (["work", "default", "dev"], "default"),
        (["a", "b"], None),
    ],
)
def test_a_profile_that_nothing_names_counts_if_it_is_default_alone_or_dev(
    tmp_path: Path, names: list[str], counts: str | None
) -> None:
    """The file begins with a byte order mark, as some editors write it."""
    environment = profiles(tmp_path, "".join(map(table, names)))
    name, fields = profile_in_use(None, environment)
    assert (name, fields.get("api_key")) == (counts, counts and f"of-{counts}")
    if counts is None:
        with pytest.raises(ConfigurationError, match=r"no broker address; .*profiles\.toml"):
            connection_settings(environment=environment)
    else:
        assert connection_settings(environment=environment).api_key == f"of-{counts}"


def test_a_key_that_nothing_names_goes_to_no_address_from_elsewhere(tmp_path: Path) -> None:
    text = table("dev")
    elsewhere = ["10.0.0.1:1"]
    assert connection_settings(bootstrap=elsewhere, environment=profiles(tmp_path, text)).api_key is None
    environment = profiles(tmp_path, text, PENSTOCK_BOOTSTRAP="10.0.0.1:1")
    assert connection_settings(environment=environment).api_key is None
    url = "https://elsewhere.example"
    assert (
        connection_settings(api_url=url, environment=profiles(tmp_path, text), brokers=False).api_key is None
    )
    environment = profiles(tmp_path, text, PENSTOCK_API_URL=url)
    assert connection_settings(environment=environment, brokers=False).api_key is None
    named = connection_settings(bootstrap=elsewhere, profile="dev", environment=environment)
    assert named.api_key == "of-dev"
    with_url = text + f'api_url = "{url}/"\n'
    same = connection_settings(
        environment=profiles(tmp_path, with_url, PENSTOCK_API_URL=url, PENSTOCK_API_KEY="mine")
    )
    assert (same.bootstrap, same.api_key) == (("127.0.0.1:1",), "mine"), "it is the profile's own service"
    staging = connection_settings(environment=profiles(tmp_path, with_url, PENSTOCK_BOOTSTRAP="10.0.0.1:1"))
    assert staging.api_url is None, "no change of staging reaches the service of the profile"


def test_a_profile_file_of_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_bytes("[caf\u00e9]".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"profiles\.toml: not UTF-8"):
        read_profile(None, {"PENSTOCK_PROFILE_FILE": str(tmp_path / "profiles.toml")})
