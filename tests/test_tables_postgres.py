"""The warehouse tools against a real PostgreSQL server: `make test-services` installs what is needed and runs this."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import ROOT, clean_env, owning

SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = pytest.mark.skipif(
    os.environ.get("SERVICES") != "1" or not SERVERS, reason="make test-services starts the server")
BIN = ROOT / "bin" / "warehouse"
SCHEMA = """
create schema shop; create schema staff; create schema hidden;
create table shop.towns (id int primary key, name text);
create table shop.customers (id int primary key, name text, town int references shop.towns (id), raw bytea);
comment on table shop.customers is 'people who buy'; comment on column shop.customers.name is 'as on the invoice';
insert into shop.towns values (1, 'Graz'), (2, 'Lyon');
insert into shop.customers select n, 'c' || n, 1 + n % 2, '\\x00ff' from generate_series(1, 50) n;
create view shop.names as select name from shop.customers;
create table shop.log (at date, what text) partition by range (at);
create table shop.log_25 partition of shop.log for values from ('2025-01-01') to ('2026-01-01');
insert into shop.log values ('2025-03-01', 'x');
create table staff.customers (id int); create table hidden.secrets (word text);
create role reader login password 'p:w@d';
grant usage on schema shop, staff to reader; grant select on all tables in schema shop, staff to reader;
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of one's own on loopback, which asks for passwords; as another user where we are root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # where that other user may enter
        base, port = Path(folder), free_port()
        as_user = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
        if as_user:
            shutil.chown(base, "nobody")
        (base / "word").write_text("owner-word")

        def run(program: str, *words: str | Path, said: str = "") -> None:
            subprocess.run([*as_user, SERVERS[-1] / program, *words], check=True, cwd=base, timeout=120, text=True,
                           input=said, stdout=subprocess.DEVNULL)

        run("initdb", "-D", base / "data", "-U", "owner", "-A", "scram-sha-256", "--pwfile", base / "word", "--no-sync")
        settings = f"-p {port} -k '' -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", "-D", base / "data", "-w", "-l", base / "log", "-o", settings, "start")
        try:
            run("psql", "-q", "-v", "ON_ERROR_STOP=1", f"postgresql://owner:owner-word@127.0.0.1:{port}/postgres",
                said=SCHEMA)
            yield f"postgresql://reader:p%3Aw%40d@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", base / "data", "-m", "immediate", "stop")


def tool(cwd: Path, url: str, name: str, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HARNESS_OUT": "", "WAREHOUSE_URL": url}
    return subprocess.run([sys.executable, str(BIN / name), *args], cwd=cwd, env=env, capture_output=True, text=True,
                          timeout=60, check=False)


def answer(cwd: Path, url: str, name: str, *args: str) -> dict:
    done = tool(cwd, url, name, *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_schemas_are_domains_and_only_what_may_be_read_is_seen(tmp_path: Path, url: str) -> None:
    found = answer(tmp_path, url, "find-domain", "which people buy in Graz, by town?")
    assert found["domains"][0]["domain"] == "shop" and found["domains_in_all"] == 2
    tables = answer(tmp_path, url, "find-tables", "secret words")
    assert all("secrets" not in table["table"] for table in tables["tables"])
    assert "p:w@d" not in json.dumps(found) and "p%3A" not in json.dumps(found)


def test_a_table_is_described_with_comments_and_keys_and_sampled(tmp_path: Path, url: str) -> None:
    found = answer(tmp_path, url, "describe-table", "--table", "shop.customers")
    assert (found["description"], found["rows"]) == ("people who buy", 50)
    assert found["columns"][1] == {"name": "name", "type": "text", "description": "as on the invoice"}
    assert found["refers_to"] == ["customers.town = towns.id"]
    assert answer(tmp_path, url, "sample-rows", "--table", "shop.customers", "--limit", "1")["rows"] == [
        [1, "c1", 2, "00ff"]]
    assert tool(tmp_path, url, "describe-table", "--table", "customers").returncode == 2


def test_a_query_is_answered_and_limited(tmp_path: Path, url: str) -> None:
    base = ("--table", "shop.customers", "--table", "towns")
    sql = "SELECT t.name, count(*) AS n FROM customers c JOIN towns t ON t.id = c.town GROUP BY 1 ORDER BY 1"
    found = answer(tmp_path, url, "query-sql", *base, sql)
    assert found["rows"] == [["Graz", 25], ["Lyon", 25]] and found["tables"] == ["shop.customers", "shop.towns"]
    assert (tmp_path / found["csv"]).read_text() == "name,n\nGraz,25\nLyon,25\n"
    few = answer(tmp_path, url, "query-sql", *base, "--limit", "7", "SELECT id FROM shop.customers")
    assert few["row_count"] == 7 and few["more_rows"]
    assert answer(tmp_path, url, "query-sql", "--table", "names", "SELECT count(*) FROM names")["rows"] == [[50]]
    assert answer(tmp_path, url, "query-sql", "--table", "shop.log", "SELECT what FROM log")["rows"] == [["x"]]
    assert any("customers" in line for line in answer(tmp_path, url, "explain-sql", *base, sql)["plan"])
    slow = "SELECT count(*) FROM customers a, customers b, customers c, customers d, customers e, customers f"
    assert tool(tmp_path, url, "query-sql", *base, "--seconds", "0.3", slow).returncode == 124


@pytest.mark.parametrize("sql", [
    "SELECT * FROM hidden.secrets", "SELECT pg_sleep(9)", "SELECT pg_read_file('/etc/passwd')", "DELETE FROM customers",
    "SELECT * INTO x FROM customers", "SELECT nope FROM customers", "SELECT * FROM log",
])
def test_what_is_no_read_of_named_tables_is_refused(tmp_path: Path, url: str, sql: str) -> None:
    done = tool(tmp_path, url, "query-sql", "--table", "shop.customers", sql)
    assert done.returncode == 65 and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("sql", "said"), [
    ("DELETE FROM customers", "permission denied"), ("VACUUM", "syntax error"),
    ("SELECT 1; DROP TABLE customers", "multiple commands"),
    ("SELECT count(*) FROM towns", "other tables"),
    ("SELECT nextval('x')", "does not exist"),
])
def test_the_server_is_a_second_guard(url: str, sql: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bin"))
    monkeypatch.setenv("WAREHOUSE_URL", url)
    from tables import postgres
    from tables.schema import Failed, Table

    with pytest.raises(Failed, match=said) as failed:
        postgres.rows("", sql, [Table("shop", "customers", schema="shop")], 10, 5)
    assert failed.value.code == 65


@pytest.mark.parametrize(("change", "code"), [
    (("p%3Aw%40d", "wrong"), 77), (("/postgres", "/nothing"), 69), (("postgresql://", "mysql://"), 78),
])
def test_a_url_that_does_not_work_is_one_line_without_the_password(
        tmp_path: Path, url: str, change: tuple[str, str], code: int) -> None:
    done = tool(tmp_path, url.replace(*change), "find-tables", "towns")
    assert done.returncode == code and done.stderr.count("\n") == 1, done.stderr
    assert "p%3A" not in done.stderr and "wrong" not in done.stderr
    assert tool(tmp_path, "", "find-tables", "towns").returncode == 77
    assert tool(tmp_path, "postgresql://u:p@127.0.0.1:1/x", "find-tables", "towns").returncode == 69


def test_in_confinement_the_server_is_reached_once_its_secret_is_listed(tmp_path: Path, url: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".harness").mkdir(parents=True)
    policy = home / ".config" / "harness" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "harness", "tools", "run", "--no-input", "warehouse/query-sql", "--table",
               "shop.towns", "SELECT count(*) AS n FROM towns"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=project, env=clean_env(home, WAREHOUSE_URL=url), capture_output=True,
                              text=True, timeout=60, check=False)

    assert run().returncode in (5, 77), "a secret that nobody listed is not given"
    place = url.rpartition("@")[2].partition("/")[0]
    policy.write_text("version: 1\nsecrets:\n  WAREHOUSE_URL: {tools: [warehouse/query-sql], from: env}\n"
                      f"network: {{hosts: {{warehouse/query-sql: ['{place}']}}}}\n")
    done = run()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [[2]] and "p%3A" not in done.stdout + done.stderr


def test_drafts_of_its_schemas_answer_a_question_once_adopted(tmp_path: Path, url: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".harness").mkdir(parents=True)
    said = answer(project, url, "plan-domains")
    assert [one["domain"] for one in said["domains"]] == ["shop", "staff"] and said["plan"] is None
    assert "p:w@d" not in json.dumps(said)
    subprocess.run(shlex.split(said["adopt"].partition(": ")[2]), cwd=project, check=True)
    policy = owning(home, project) / ".config" / "harness" / "policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    place, tools = url.rpartition("@")[2].partition("/")[0], ("warehouse/describe-table", "warehouse/query-sql")
    hosts = ", ".join(f"{name}: ['{place}']" for name in tools)
    policy.write_text(f"version: 1\nsecrets:\n  WAREHOUSE_URL: {{tools: [{', '.join(tools)}], from: env}}\n"
                      f"network: {{hosts: {{{hosts}}}}}\n")

    def run(*words: str, code: int = 0, said: str = "") -> str:
        done = subprocess.run([sys.executable, "-m", "harness", *words], cwd=project, capture_output=True, text=True,
                              env=clean_env(home, WAREHOUSE_URL=url), timeout=60, check=False, input=said)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    run("skills", "check", "--strict", "--static")
    run("run", "ask-shop", "how many towns are there", "--agent")
    query = ("step", "last", "warehouse/query-sql", "--table", "towns", "SELECT count(*) AS n FROM towns")
    assert "NOT_RELEASED" in run(*query, code=2)
    run("step", "last", "warehouse/describe-table", "--table", "towns")
    got = run(*query)
    found = json.loads(got[got.index("{"):got.rindex("}") + 1])
    text = (f"There are 2 towns.\n\nSQL: {found['sql']}\nTables: shop.towns\nRows: 1\nData: {found['data_time']}\n"
            f"CSV: {found['csv']}\n")
    assert run("finish", "last", "-f", "-", said=text).strip().startswith("There are 2 towns.")
