"""Whatever goes wrong while runs are archived: nothing is lost or counted twice, and an error says what to do."""

import asyncio
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from runtally.access.erasure import Places, erase_project
from runtally.archive import archiver, edit, queries
from runtally.archive.archive import MARKER, Archive
from runtally.archive.store import Folder, store_at
from runtally.audit import OPERATOR
from runtally.db.database import Connection, Database
from runtally.errors import (
    ArchiveError,
    ArchiveMissing,
    ArchiveNotFound,
    ArchiveUnavailable,
    DamagedArchive,
    ForeignArchive,
    RuntallyError,
    StoreUnavailable,
)
from runtally.retention import Dropper
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.archives import (
    KEPT_DAYS,
    NOW,
    OLD_RUNS,
    Bucket,
    Watched,
    archive_and_die,
    archive_at,
    change_byte,
    erase_and_die,
    everywhere,
    names_in,
    remove_link,
    replace_folder,
    retain,
)
from tests.commands import forked
from tests.serving import UNWILLING, Postgres

SECONDS = 60.0
ALL = {"one": OLD_RUNS, "two": OLD_RUNS}


async def died(work: Callable[[str, str, str], None], *arguments: str) -> None:
    """Let another process do this work until it is killed."""
    process = forked.Process(target=work, args=arguments)
    process.start()
    await asyncio.to_thread(process.join, SECONDS)
    assert process.exitcode == -9


async def stored(archive: Archive) -> set[str]:
    """The files that the store has, half-written ones too."""
    return set(await archive.store.list_files("runs"))


async def is_consistent(database: Database, archive: Archive) -> bool:
    """Whether the store has exactly the files that are listed, and no sum differs from its runs."""
    differences = [found async for _, found in verify_sums(database, NOW) if found]
    await archive.check()
    return await archive.strays() == [] and differences == []


@pytest.mark.parametrize("point", ["before the file", "half of the file", "after the file", "after deleting the runs"])
async def test_a_process_that_is_killed_while_it_archives_loses_and_doubles_nothing(
    own: Database, empty_database_url: str, folder: Path, point: str
) -> None:
    archive = archive_at(own, str(folder))
    before = await everywhere(own, archive)

    await died(archive_and_die, empty_database_url, str(folder), point)
    assert await everywhere(own, archive) == before
    assert await archive.list_files() == []
    assert await retain(own, archive) == ALL

    assert await everywhere(own, archive) == before
    assert len(await archive.list_files()) == 4
    assert await is_consistent(own, archive)


@pytest.mark.parametrize("point", ["before deleting the files", "after deleting a file"])
async def test_the_files_of_an_erased_project_go_also_when_its_process_is_killed(
    own: Database, empty_database_url: str, folder: Path, point: str
) -> None:
    archive = archive_at(own, str(folder))
    await retain(own, archive)

    await died(erase_and_die, empty_database_url, str(folder), point)
    assert {project for project, *_ in await everywhere(own, archive)} == {"two"}
    assert await retain(own, archive) == {}

    assert {path.split("/")[1] for path in await stored(archive)} == {"project=two"}
    assert names_in(folder / "runs") == ["project=two"]
    assert await is_consistent(own, archive)


@pytest.mark.parametrize("call", range(8))
async def test_a_bucket_that_goes_away_at_any_call_costs_nothing_but_a_later_pass(
    own: Database, bucket: Bucket, bucket_url: str, call: int
) -> None:
    archive = archive_at(own, bucket_url)
    before = await everywhere(own, archive)

    async def go_away() -> None:
        await asyncio.to_thread(bucket.stop)

    watched = Watched(archive.store, call, go_away)
    try:
        for _ in range(3):
            with pytest.raises(ArchiveUnavailable, match="ARCHIVE_URL does not answer"):
                await retain(own, Archive(own, watched, archive.clock))
    finally:
        await asyncio.to_thread(bucket.start)
    assert await everywhere(own, archive) == before
    moved = await retain(own, archive)

    assert set(moved) == {"one", "two"}
    assert await everywhere(own, archive) == before
    assert await is_consistent(own, archive)


@pytest.mark.parametrize("call", [0, 4, 5, 7])
@pytest.mark.parametrize("setting", UNWILLING.values(), ids=list(UNWILLING))
async def test_a_database_that_begins_anew_and_is_unwilling_during_a_pass_loses_and_doubles_nothing(  # noqa: PLR0913, PLR0917  # What it takes.
    postgres: Postgres, own: Database, empty_database_url: str, folder: Path, setting: str, call: int
) -> None:
    archive = archive_at(own, str(folder))
    before = await everywhere(own, archive)

    async def begin_anew() -> None:
        await asyncio.to_thread(postgres.begin_anew, empty_database_url, f"SET {setting}")

    watched = Watched(archive.store, call, begin_anew)
    with pytest.raises(RuntallyError):
        await retain(own, Archive(own, watched, archive.clock))
    assert watched.calls > call
    await asyncio.to_thread(postgres.begin_anew, empty_database_url, f"RESET {setting.partition(' ')[0]}")
    async with Database(empty_database_url) as after:
        archive = archive_at(after, str(folder))
        assert await everywhere(after, archive) == before

        await retain(after, archive)

        assert await everywhere(after, archive) == before
        assert len(await archive.list_files()) == 4
        assert await is_consistent(after, archive)


async def test_a_folder_that_goes_away_costs_nothing_but_a_later_pass(own: Database, folder: Path) -> None:
    archive = archive_at(own, str(folder))
    before = await everywhere(own, archive)
    replace_folder(folder, by="nothing")

    with pytest.raises(ArchiveUnavailable, match="make it, and let the user who runs Runtally write there"):
        await retain(own, archive)
    await asyncio.to_thread(folder.unlink)

    assert await retain(own, archive) == ALL
    assert await everywhere(own, archive) == before


async def test_a_bucket_that_does_not_exist_or_refuses_is_an_error_without_a_key(
    own: Database, bucket: Bucket, bucket_url: str
) -> None:
    assert bucket_url
    with pytest.raises(ArchiveUnavailable, match="does not exist") as error:
        await retain(own, archive_at(own, "s3://no-such-bucket"))
    assert bucket.environment["AWS_ACCESS_KEY_ID"] not in str(error.value)


async def test_a_run_that_changes_while_its_file_is_written_stays_and_goes_into_the_next_file(
    own: Database, archive_url: str
) -> None:
    archive = archive_at(own, archive_url)

    async def reprice() -> None:
        async with own.connection() as connection:
            await connection.execute("UPDATE runs SET cost_usd = 5, version = version + 1 WHERE id = '0-0'")

    # The calls are: the marker, its folder, itself, a check, the first file, and the marker again.
    watched = Watched(archive.store, 6, reprice)
    assert await retain(own, Archive(own, watched, archive.clock)) == {"two": OLD_RUNS}
    before = await everywhere(own, archive)

    assert await retain(own, archive) == {"one": OLD_RUNS}
    after = await everywhere(own, archive)
    assert after == before
    assert ("one", "0-0", 2, 5) in after
    assert await is_consistent(own, archive)


async def test_a_project_that_is_erased_while_its_file_is_written_leaves_nothing(
    own: Database, archive_url: str
) -> None:
    archive = archive_at(own, archive_url)

    async def erase() -> None:
        await erase_project(Places(own, own, own, archive), OPERATOR, "one")

    watched = Watched(archive.store, 6, erase)
    assert await retain(own, Archive(own, watched, archive.clock)) == {"two": OLD_RUNS}
    await retain(own, archive)

    assert {path.split("/")[1] for path in await stored(archive)} == {"project=two"}
    assert {project for project, *_ in await everywhere(own, archive)} == {"two"}


async def test_an_erased_project_leaves_the_archive_and_the_others_stay(own: Database, archive_url: str) -> None:
    archive = archive_at(own, archive_url)
    runs = len(await everywhere(own, archive)) // 2
    await retain(own, archive)

    assert await erase_project(Places(own, own, own, archive), OPERATOR, "one") == runs

    assert {path.split("/")[1] for path in await stored(archive)} == {"project=two"}
    assert {project for project, *_ in await everywhere(own, archive)} == {"two"}
    assert await is_consistent(own, archive)


async def test_a_project_is_not_erased_while_its_archive_is_away_or_not_set(
    own: Database, bucket: Bucket, bucket_url: str
) -> None:
    archive = archive_at(own, bucket_url)
    await retain(own, archive)
    before = await everywhere(own, archive)

    with pytest.raises(ArchiveMissing, match="Runs of this project are in 2 files of an archive"):
        await erase_project(Places(own, own, own, None), OPERATOR, "one")
    bucket.stop()
    try:
        with pytest.raises(ArchiveUnavailable):
            await erase_project(Places(own, own, own, archive), OPERATOR, "one")
    finally:
        bucket.start()

    assert await everywhere(own, archive) == before


async def test_passes_at_the_same_time_do_no_harm(
    own: Database, archive_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "RUNS_PER_FILE", 20)
    archive = archive_at(own, archive_url)
    before = await everywhere(own, archive)

    passes = await asyncio.gather(*(retain(own, archive) for _ in range(3)))

    assert {name: sum(each.get(name, 0) for each in passes) for name in ALL} == ALL
    assert await everywhere(own, archive) == before
    assert await is_consistent(own, archive)


async def test_a_changed_file_is_named_when_it_is_read(own: Database, folder: Path) -> None:
    archive = archive_at(own, str(folder))
    await retain(own, archive)
    damaged = (await archive.list_files())[1]
    change_byte(folder / damaged.path)

    with pytest.raises(DamagedArchive, match=f"{damaged.path} is not as it was written: 90 runs of one, 2026-04-01"):
        await archive.read(damaged)


@pytest.mark.parametrize("how", ["missing", "short"])
async def test_a_file_that_is_missing_or_cut_short_is_named_and_nothing_more_is_archived(
    own: Database, folder: Path, how: str
) -> None:
    archive = archive_at(own, str(folder))
    async with own.connection() as connection:
        await connection.execute("UPDATE projects SET retention_days = 0 WHERE id = 'two'")
    await retain(own, archive)
    damaged = (await archive.list_files())[0]
    content = (folder / damaged.path).read_bytes()
    if how == "missing":
        (folder / damaged.path).unlink()
    else:
        (folder / damaged.path).write_bytes(content[:-1])
    async with own.connection() as connection:
        await connection.execute("UPDATE projects SET retention_days = NULL WHERE id = 'two'")
    files = await stored(archive)

    with pytest.raises(DamagedArchive, match=rf"{damaged.path} .*\(93 runs of one, 2026-03-01 to 2026-03-31\)"):
        await retain(own, archive)
    assert await stored(archive) == files
    assert await archive.list_files("two") == []

    (folder / damaged.path).write_bytes(content)
    assert await retain(own, archive) == {"two": OLD_RUNS}


async def test_the_archive_of_another_installation_is_refused_and_left_as_it_is(
    own: Database, postgres: Postgres, archive_url: str
) -> None:
    await retain(own, archive_at(own, archive_url))
    files = await store_at(archive_url).list_files("")
    url = postgres.create("other_installation", "template_with_tables")
    async with Database(url) as other, other.connection() as connection:
        archive = archive_at(other, archive_url)
        with pytest.raises(ForeignArchive, match="the archive of another installation"):
            await archive.open()
        assert await connection.fetchval("SELECT count(*) FROM installation") == 0
        await connection.execute("INSERT INTO installation (number, id) VALUES (1, gen_random_uuid())")
        with pytest.raises(ForeignArchive, match="set a folder or prefix of its own; nothing was written there"):
            await archive.open()
    postgres.drop("other_installation")

    assert await store_at(archive_url).list_files("") == files


async def test_a_disk_that_is_not_mounted_is_not_taken_for_a_new_archive(own: Database, folder: Path) -> None:
    archive = archive_at(own, str(folder))
    await retain(own, archive)
    replace_folder(folder, by="empty")

    with pytest.raises(ArchiveNotFound, match="though 4 files are listed: correct the URL, or mount the disk"):
        await archive.open()

    assert names_in(folder) == []


async def test_an_archive_that_was_begun_and_has_no_file_yet_is_not_begun_anew_on_another_disk(
    own: Database, folder: Path
) -> None:
    archive = archive_at(own, str(folder))
    await archive.begin()
    replace_folder(folder, by="empty")

    for work in (archive.open, archive.begin, archive.check):
        with pytest.raises(ArchiveNotFound, match=r"though one was begun: .* run `runtally archive stop` first"):
            await work()
    assert names_in(folder) == []

    async with own.session() as session:
        await edit.stop(session, OPERATOR, NOW)
    await archive.begin()
    assert names_in(folder) == [MARKER]


async def test_an_archive_whose_marker_could_not_be_written_is_begun_by_the_next_pass(
    own: Database, folder: Path
) -> None:
    replace_folder(folder, by="nothing")
    archive = archive_at(own, str(folder))
    with pytest.raises(ArchiveUnavailable):
        await archive.begin()

    remove_link(folder)
    assert await archive.begin() == await archive.open()


async def test_files_that_are_to_be_deleted_stay_listed_until_their_disk_is_back(own: Database, folder: Path) -> None:
    archive = archive_at(own, str(folder))
    await retain(own, archive)
    async with own.connection() as connection:
        await connection.execute("UPDATE archive_files SET state = 'removing'")
    replace_folder(folder, by="empty")

    with pytest.raises(ArchiveNotFound, match="though 4 files are listed"):
        await archive.remove_left_over()
    with pytest.raises(ArchiveNotFound):
        await archive.begin()
    assert names_in(folder) == []
    await asyncio.to_thread(folder.rmdir)
    await asyncio.to_thread(folder.with_name("elsewhere").rename, folder)
    await retain(own, archive)

    assert await stored(archive) == set()
    assert await archive.strays() == []


async def test_a_disk_that_goes_away_during_a_pass_gets_no_more_runs_and_no_stray_stays(
    own: Database, folder: Path
) -> None:
    archive = archive_at(own, str(folder))
    before = await everywhere(own, archive)

    async def unmount() -> None:
        replace_folder(folder, by="empty")

    # The first file is put after the marker, its folder, itself, and a check.
    with pytest.raises(ArchiveNotFound):
        await retain(own, Archive(own, Watched(archive.store, 5, unmount), archive.clock))

    assert names_in(folder) == []
    assert await everywhere(own, archive) == before


async def test_reading_an_archive_that_is_not_begun_writes_nothing(own: Database, archive_url: str) -> None:
    archive = archive_at(own, archive_url)

    assert await archive.open() is None
    await archive.check()

    assert await archive.store.list_files("") == {}
    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM installation") == 0


async def test_a_process_without_the_archive_drops_nothing_once_another_one_begins_it(
    own: Database, folder: Path
) -> None:
    archive = archive_at(own, str(folder))
    before = await everywhere(own, archive)

    async def begin(_seconds: float, _stop: asyncio.Event) -> None:
        await archive.begin()

    dropper = Dropper(own, KEPT_DAYS, lambda: NOW, wait=begin)
    with pytest.raises(ArchiveMissing):
        _ = [dropped async for dropped in dropper.run_pass(asyncio.Event())]

    assert await everywhere(own, archive) == before


async def test_a_project_is_erased_though_the_database_goes_away_before_its_files_do(
    own: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_at(own, str(folder))
    await retain(own, archive)

    async def go_away(_connection: Connection, _project_id: str, _number: uuid.UUID) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(queries, "delete_file", go_away)
    assert await erase_project(Places(own, own, own, archive), OPERATOR, "one") > 0
    monkeypatch.undo()
    await retain(own, archive)

    assert {path.split("/")[1] for path in await stored(archive)} == {"project=two"}


async def test_files_without_a_marker_and_markers_of_no_sense_are_refused(own: Database, folder: Path) -> None:
    (folder / "runs").mkdir(parents=True)
    (folder / "runs" / "somebody.parquet").write_bytes(b"PAR1")
    archive = archive_at(own, str(folder))

    with pytest.raises(ForeignArchive, match="set an empty folder or prefix"):
        await archive.open()
    for content, said in ((b"{", "cannot be read"), (b'{"format": 2, "installation": "%s"}', "update Runtally")):
        (folder / MARKER).write_bytes(content.replace(b"%s", b"0" * 8 + b"-0000-0000-0000-" + b"0" * 12))
        with pytest.raises(ForeignArchive, match=said):
            await archive.open()

    assert sorted(await store_at(str(folder)).list_files("")) == ["runs/somebody.parquet", MARKER]
    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM installation") == 0


async def test_a_process_without_the_archive_drops_nothing_that_would_be_archived(own: Database, folder: Path) -> None:
    archive = archive_at(own, str(folder))
    await archive.begin()
    before = await everywhere(own, archive)

    with pytest.raises(ArchiveMissing, match="set it as where they were, or run `runtally archive stop`"):
        await retain(own, None)

    assert await everywhere(own, archive) == before


async def test_every_error_of_the_archive_says_what_to_do() -> None:
    messages = [kind.message for kind in ArchiveError.__subclasses__()]

    assert len({*messages, ArchiveError.message}) == len(messages) + 1 > 3
    advice = re.compile(r"check|correct|verify|choose|try again|set ", re.IGNORECASE)
    assert [message for message in messages if not advice.search(message)] == []


async def test_what_is_written_to_a_folder_is_for_the_service_s_user_alone(tmp_path: Path) -> None:
    await Folder(tmp_path / "archive").put("project/day.parquet", b"runs")

    written = [tmp_path / "archive", *(tmp_path / "archive").rglob("*")]
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in written} == {
        "archive": "0o700",
        "project": "0o700",
        "day.parquet": "0o600",
    }
