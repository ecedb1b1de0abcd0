"""Every setting: its name, type, default and description. Read from the environment only.

A secret may also come from a file (`INGEST_API_KEY_FILE=/run/secrets/ingest`), and from `DATA_DIR/secrets.json`, where
the first start with `--provision` keeps those it created.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from runtally.clock import zone_named
from runtally.errors import SettingsError
from runtally.files import default_data_dir
from runtally.setting_sources import KeptSecrets, SecretFiles

# A server that listens on every address is reached at this one.
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # Nothing is bound here.
MAIN = "main"
"""The name of the cell in the database of DATABASE_URL."""
_CELL_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_BEFORE_CELL = re.compile(r",(?=\s*[A-Za-z0-9-]+\s*=\s*postgres)")
CONTENT_KEYS = (
    "prompt,prompts,completion,completions,message,messages,input,inputs,output,outputs,content,contents,response,"
    "responses,text,system,system_prompt,user_prompt,instructions,question,answer,query,transcript,body,tool_input,"
    "tool_output,tool_result,tool_calls,tool_call_result,function_call,arguments,choices,prompt_template,"
    "input_value,output_value,chat_history,reasoning,reasoning_content,reasoning_details,thinking,thinking_blocks,thought,"
    "thoughts,chain_of_thought,scratchpad,history,dialog,dialogue,utterance,utterances,tool_call,tool_use,tool_inputs,"
    "tool_outputs,tool_results,function_calls,instruction,questions,answers,queries,reply,replies,refusal,transcripts,"
    "transcription,candidates,generations,prompt_preview,msgs,raw_request,tool_args,tool_parameters,few_shot_examples,"
    "retrieved_context,retrieved_documents,input_documents,span_inputs,span_outputs"
)


class PrivacyMode(StrEnum):
    """The treatment of content that a client sends although it must not."""

    DEFAULT = "default"
    STRICT = "strict"
    REJECT = "reject"
    OFF_METADATA_SCRUB = "off-metadata-scrub"


class RelayMode(StrEnum):
    """The process that pushes runs to the reporting table."""

    EMBEDDED = "embedded"
    OFF = "off"


class SmtpTls(StrEnum):
    """The encryption of the connection to the mail server."""

    STARTTLS = "starttls"
    TLS = "tls"
    OFF = "off"


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def _split(value: Any) -> Any:  # noqa: ANN401  # pydantic hands over whatever the source held.
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _cells(value: Any) -> Any:  # noqa: ANN401  # As above.
    """Read names and URLs; a comma within a URL is followed by no name."""
    if not isinstance(value, str):
        return value
    found: dict[str, str] = {}
    for part in _BEFORE_CELL.split(value.strip().rstrip(",")) if value.strip() else ():
        name, _, url = part.strip().partition("=")
        if not _CELL_NAME.fullmatch(name) or not url:
            raise ValueError("write eu=postgresql://user:password@host/name, with commas between several")
        if name in found or name == MAIN:
            raise ValueError(f"each cell has a name of its own, and {MAIN} is the database of DATABASE_URL")
        found[name] = url
    return found


def _zone(value: str) -> str:
    if zone_named(value) is None:
        raise ValueError("write a name of the IANA time zone database, such as Europe/Berlin")
    return value


def _is_one(value: Any) -> Any:  # noqa: ANN401  # As above.
    return value.strip() == "1" if isinstance(value, str) else value


# Settings that open access are on for exactly `1`; any other value leaves them off.
OnlyOne = Annotated[bool, BeforeValidator(_is_one)]
Level = Annotated[LogLevel, BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Secrets = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split)]


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """A provider through which people sign in, and the role of those without an account."""

    issuer: str
    client_id: str
    client_secret: SecretStr
    name: str
    domains: tuple[str, ...]
    role: tuple[str, str] | None
    """The role and project of people who get an account by their domain."""
    scope: str
    groups_claim: str
    is_only: bool
    """Whether passwords are off."""
    session_lifetime: timedelta


class Settings(BaseSettings):
    """The settings of one process; immutable."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=False)

    # URLs may hold passwords.
    database_url: str | None = Field(
        None,
        repr=False,
        description="Postgres 13 or newer; several servers, of which one takes writes, with commas between: "
        "`postgresql://user:password@host1:5432,host2:5432/name`. Without it the embedded Postgres is started, with its data in "
        "DATA_DIR.",
    )
    read_database_url: str | None = Field(
        None,
        repr=False,
        description="A replica of DATABASE_URL for metrics, pages and exports; while it is away or more than 10 seconds "
        "behind, they read DATABASE_URL.",
    )
    cell_urls: Annotated[Mapping[str, str], NoDecode, BeforeValidator(_cells)] = Field(
        default_factory=dict,
        repr=False,
        description="Further databases of projects, each with a name: `eu=postgresql://user:password@host/name,us=postgresql://...`. "
        "The database of DATABASE_URL is the cell `main`. `runtally cells add` adds one.",
    )
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Folder of the embedded Postgres and of generated secrets. A checkout has it in `.data`, or for root in "
        "`/var/lib/runtally` if no other user can reach the checkout. An installed package has it in "
        "`$XDG_DATA_HOME/runtally` (`~/.local/share/runtally`), for root in `/var/lib/runtally`.",
    )
    pg_bin: Path | None = Field(
        None, description="Folder of the Postgres programs to run the embedded server with, instead of its own."
    )
    host: str = Field("127.0.0.1", description="Address that the server listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port that the server listens on.")
    web_concurrency: int = Field(
        1, ge=1, description="Server processes of `runtally serve`; some hosts set it to what fits their memory."
    )
    ingest_api_key: Secrets = Field(
        (), description="Shared key of the ingest API. Several, comma-separated, are all accepted, for rotation."
    )
    service_dev_mode: OnlyOne = Field(
        default=False,
        description="1 signs everyone in as admin on pages and metrics. For development on loopback only.",
    )
    service_dev_mode_allow_remote: OnlyOne = Field(
        default=False,
        description="1 lets dev mode listen on an address that is not loopback, and answer to any host name.",
    )
    service_sync_sign: Secrets = Field(
        (),
        description="Signs what goes to a reporting table elsewhere; without it nothing is queued for the reporting table, "
        "here or there, and none is taken. Several, comma-separated, are all accepted, for rotation; the first one signs.",
    )
    service_sync_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/?#]\S*$",
        repr=False,
        description="Where the relay pushes runs to: a server of this kind, or a URL with a path; by default it copies them "
        "into the reporting table of this service.",
    )
    relay: RelayMode = Field(
        RelayMode.EMBEDDED,
        description="`embedded` copies or pushes runs from within `serve`; `off` leaves it to `runtally relay`.",
    )
    relay_concurrency: int = Field(16, ge=1, le=64, description="Calls that one relay makes at the same time.")
    reporting_database_url: str | None = Field(
        None,
        repr=False,
        description="Postgres 13 or newer for the reporting table and its views; DATABASE_URL by default.",
    )
    secret_key: Secrets = Field(
        (),
        description="Signs session cookies; without it nobody can sign in. Several, comma-separated, are all accepted, for "
        "rotation; the first one signs.",
    )
    names_secret: SecretStr | None = Field(
        None,
        description="Keys the hashes of people's names; by default SECRET_KEY, the last of several. Another one makes other "
        "hashes.",
    )
    oidc_issuer: str | None = Field(
        None,
        pattern=r"^https://[^\s?#]+$|^http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^?#]*)?$",
        description="URL of an OpenID Connect provider through which people sign in, exactly as it calls itself. Needs "
        "OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.",
    )
    oidc_client_id: str | None = Field(None, description="What the provider calls this service.")
    oidc_client_secret: SecretStr | None = Field(None, description="What this service proves that with.")
    oidc_name: str = Field("single sign-on", description="What the button on the sign-in page calls the provider.")
    oidc_domains: Names = Field(
        (),
        description="Domains whose people get an account when they first come, comma-separated; without any only those "
        "do who have one or are invited.",
    )
    oidc_role: str | None = Field(
        None,
        pattern=r"^(member|viewer):.+$",
        description="Role that they get, such as `viewer:my-project`; without it an admin gives them one.",
    )
    oidc_groups_claim: str = Field(
        "groups",
        min_length=1,
        description="Claim of the ID token that names a person's groups, whose roles `groups` of the API gives.",
    )
    oidc_scope: str = Field(
        "openid email profile",
        pattern=r"^openid( [\x21\x23-\x5b\x5d-\x7e]+)*$",
        description="Scope that the provider is asked for; many send groups only for a further one, as in `openid email profile groups`.",
    )
    oidc_session_hours: int = Field(
        336,
        ge=1,
        le=336,
        description="Hours after which who came through the provider is sent there again: who may no longer come in is out "
        "by then, and roles follow groups.",
    )
    oidc_only: bool = Field(
        default=False,
        description="1 turns passwords off: people come in through the provider alone. Besides them only an admin key signs in, "
        "which `runtally keys create --scope admin` makes for an operator who is locked out.",
    )
    ingest_project_keys: bool = Field(
        default=True,
        description="0 takes runs with INGEST_API_KEY alone; else project keys with the scope runs:write send them too, and "
        "the project then comes from the key.",
    )
    svc_rate_limit_per_minute: int = Field(
        1000, ge=1, description="Ingest requests per minute and project, over all server processes."
    )
    wrong_key_limit_per_minute: int = Field(
        20, ge=1, description="Wrong keys per minute and address; after that, requests with a key wait."
    )
    metrics_token: Secrets = Field(
        (),
        description="Token with which Prometheus reads /metrics; without it that is closed. Several, comma-separated, are "
        "all accepted, for rotation.",
    )
    max_batch_runs: int = Field(1000, ge=1, description="Most runs in one batch.")
    max_body_bytes: int = Field(
        5 * 1024 * 1024, ge=1024, description="Largest request body in bytes, also after gzip inflation."
    )
    otlp_project: str = Field(
        "default", min_length=1, max_length=128, description="Project of OTLP spans that name none, and no service."
    )
    otlp_max_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest body of an OTLP request in bytes, also after inflation; exporters lose what is larger.",
    )
    otlp_attributes: Names = Field(
        (), description="Names of attributes of spans and resources to keep in metadata, beyond those that always are."
    )
    otlp_drop: Names = Field(
        (), description="Names to leave out of what is kept of OTLP spans and log records, such as `user,session`."
    )
    otlp_metrics: Names = Field(
        (),
        description="Projects that store what agents report as metrics alone, each export's sum as one run; see docs/agents.md.",
    )
    usage_memo_bytes: int = Field(
        64 * 1024 * 1024,
        ge=0,
        description="Memory in bytes that each process may use to remember what runs of days that are over add up to. "
        "0 remembers nothing: every page then reads all of its days.",
    )
    retention_days: int | None = Field(
        None,
        ge=31,
        le=3650,
        description="Days that live runs are kept in projects that say nothing else; without it for ever. Sums and the "
        "reporting table are kept.",
    )
    archive_url: str | None = Field(
        None,
        pattern=r"^(file://)?/[^?#]+$|^s3://[^\s/?#@:]+(/[^\s?#]*)?$",
        description="Where runs go as Parquet files before they are dropped: a folder (`/backups/runtally`), or "
        "`s3://bucket/prefix` with AWS_... variables that say as whom. Without it they are dropped.",
    )
    privacy_mode: PrivacyMode = Field(
        PrivacyMode.DEFAULT,
        description="`default` drops prompts, completions and content in metadata; `strict` drops promptPreview too; "
        "`reject` refuses a run that carries a prompt or completion; `off-metadata-scrub` leaves metadata as sent.",
    )
    content_keys: Names = Field(
        tuple(CONTENT_KEYS.split(",")),
        description="Names of content in keys of metadata, such as `gen_ai.prompt.0.content`; dropped at any depth.",
    )
    direct_cost_providers: Names = Field(
        ("openrouter",), description="Providers whose reported cost is trusted: routing aggregators."
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/?#]+(/[\w~-][\w.~-]*)*/?$",
        description="Where people and programs reach the server, such as https://runtally.example: in links of alerts and in commands to paste. "
        "With a path, as in https://example.com/runtally, everything is below it, whether the proxy strips it or not.",
    )
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        "UTC",
        description="Time zone of pages whose reader neither chose one nor has a browser that names its own, such as "
        "`Europe/Berlin`.",
    )
    smtp_host: str | None = Field(
        None, description="Mail server that alerts go through; without it none goes by mail. Needs PUBLIC_URL too."
    )
    smtp_port: int = Field(587, ge=1, le=65535, description="Port of the mail server.")
    smtp_user: str | None = Field(None, description="Name to sign in to the mail server with; without it nobody does.")
    smtp_password: SecretStr | None = Field(None, description="Password to sign in to the mail server with.")
    smtp_from: str | None = Field(None, description="Address that alerts come from, such as runtally@example.com.")
    smtp_tls: SmtpTls = Field(
        SmtpTls.STARTTLS,
        description="`starttls` encrypts after a plain greeting, `tls` from the start (port 465), `off` never.",
    )
    alerts_allow_private_addresses: OnlyOne = Field(
        default=False,
        description="1 lets alerts be posted to this machine and into private networks: editors of a project can then "
        "make the server send requests there.",
    )
    log_format: LogFormat = Field(LogFormat.CONSOLE, description="`console` for people, `json` for log shippers.")
    log_level: Level = Field(LogLevel.INFO, description="DEBUG, INFO, WARNING or ERROR.")

    @model_validator(mode="before")
    @classmethod
    def _empty_is_unset(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Treat a setting that is set but empty as unset; an empty list counts, so that a default can be cleared."""
        return {
            name: value
            for name, value in values.items()
            if value != "" or isinstance(cls.model_fields[name].default, tuple)
        }

    @property
    def openid(self) -> OpenIdSettings | None:
        """The OpenID provider, or None without one. Raises `SettingsError` if only a part of it is set."""
        issuer, client_id, secret = self.oidc_issuer, self.oidc_client_id, self.oidc_client_secret
        if issuer and client_id and secret:
            domains = tuple(domain.lower().removeprefix("@") for domain in self.oidc_domains)
            role, _, project_id = (self.oidc_role or "").partition(":")
            return OpenIdSettings(
                issuer,
                client_id,
                secret,
                self.oidc_name,
                domains,
                (role, project_id) if role else None,
                self.oidc_scope,
                self.oidc_groups_claim,
                self.oidc_only,
                timedelta(hours=self.oidc_session_hours),
            )
        if issuer or client_id or secret or self.oidc_only:
            raise SettingsError(
                "Set OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET, or none of them; OIDC_ONLY needs them."
            )
        return None

    @property
    def base_path(self) -> str:
        """The path of PUBLIC_URL, such as `/runtally`; empty without one."""
        return urlsplit(self.public_url or "").path.rstrip("/")

    def own_url(self, port: int | None = None) -> str:
        """The service's URL on this machine; `port` is the actual one if the setting asks for any free port."""
        host = _ANY_ADDRESS.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port if port is None else port}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # Unused: the environment is the only place.
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # Unused: NAME_FILE says where a secret is.
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, SecretFiles(settings_cls), KeptSecrets(settings_cls)


def load_settings(**overrides: object) -> Settings:
    """The settings of this process.

    Raises `SettingsError` that names each wrong setting and its constraint, never the value.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic validates what is handed over.
    except ValidationError as error:
        wrong = "; ".join(_said_of(str(item["loc"][0]), item) for item in error.errors(include_input=False))
        raise SettingsError(f"Correct these settings in the environment: {wrong.removesuffix('.')}.") from None
    except OSError as error:
        raise SettingsError(f"A file that a setting names cannot be read: {error.filename}.") from None


def _said_of(name: str, wrong: ErrorDetails) -> str:
    """Return what is wrong with a setting; where the message would be an expression, what the setting is for."""
    is_pattern = wrong["type"] == "string_pattern_mismatch"
    return f"{name.upper()}: {Settings.model_fields[name].description if is_pattern else wrong['msg'].removeprefix('Value error, ')}"
