"""The PostgreSQL back end: the server of $WAREHOUSE_URL, in transactions that read only. Every schema is a domain.

Speaks through the HTTP proxy of its confinement when there is one. The URL may hold a password and is never printed.
"""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from oncall.output import BAD_DATA, UNAVAILABLE, clip

from tables.schema import Column, Failed, Key, Rows, Table, quoted, too_slow

DIALECT, EXPLAIN, VARIABLE = "postgres", "EXPLAIN ", "WAREHOUSE_URL"
_WAIT, _CATALOG_SECONDS = 10.0, 20.0
_USERS = "n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_%'"
_TABLES = f"""
select n.nspname, c.relname, coalesce(obj_description(c.oid, 'pg_class'), '') from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and {_USERS} and has_schema_privilege(n.oid, 'USAGE')
and has_table_privilege(c.oid, 'SELECT') order by 1, 2"""
_COLUMNS = f"""
select n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
coalesce(col_description(c.oid, a.attnum), '') from pg_attribute a join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p', 'v', 'm', 'f') and {_USERS}
order by n.nspname, c.relname, a.attnum"""
_KEYS = f"""
select n.nspname, c.relname, a.attname, f.relname, b.attname from pg_constraint k
join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
join pg_class f on f.oid = k.confrelid and f.relnamespace = n.oid
cross join lateral unnest(k.conkey, k.confkey) as p(own, theirs)
join pg_attribute a on a.attrelid = c.oid and a.attnum = p.own
join pg_attribute b on b.attrelid = f.oid and b.attnum = p.theirs
where k.contype = 'f' and {_USERS} order by k.conname, p.own"""
# The relations that named ones stand on: what views read, and parts of partitioned tables.
_BELOW = """
with recursive below(oid) as (
  select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = {schema} and c.relname in ({names})
  union
  select more.oid from below cross join lateral (
    select d.refobjid from pg_rewrite w join pg_depend d on d.objid = w.oid and d.classid = 'pg_rewrite'::regclass
      and d.refclassid = 'pg_class'::regclass where w.ev_class = below.oid
    union all select i.inhrelid from pg_inherits i where i.inhparent = below.oid) as more(oid))
select n.nspname, c.relname from below
join pg_class c on c.oid = below.oid join pg_namespace n on n.oid = c.relnamespace"""
_NOW = "select to_char(now() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
_TIMED_OUT, _DENIED = "57014", ("28P01", "28000")


def catalog(place: str) -> list[Table]:
    """All tables and views that the user may read, with keys inside a schema and comments."""
    with _reading(_CATALOG_SECONDS) as db:
        columns: dict[tuple[str, str], list[Column]] = defaultdict(list)
        for schema, table, *facts in db.execute_unnamed(_COLUMNS).rows:
            columns[schema, table].append(Column(*facts))
        keys: dict[tuple[str, str], list[Key]] = defaultdict(list)
        for schema, table, *facts in db.execute_unnamed(_KEYS).rows:
            keys[schema, table].append(Key(*facts))
        return [Table(schema, table, tuple(columns[schema, table]), tuple(keys[schema, table]), said, schema)
                for schema, table, said in db.execute_unnamed(_TABLES).rows]


def rows(place: str, sql: str, tables: Sequence[Table], limit: int, seconds: float) -> Rows:
    """At most `limit` rows of one read of these tables. Raises Failed, after `seconds` with 124."""
    with _reading(seconds) as db:
        if tables:
            db.execute_unnamed(f"set local search_path to {quoted(tables[0].schema)}")
        began = db.execute_unnamed(_NOW).rows[0][0]
        _only_these(db, sql.removeprefix(EXPLAIN), tables)
        if sql.startswith(EXPLAIN):
            got = db.execute_unnamed(sql)
        else:
            db.execute_unnamed(f"declare answer no scroll cursor for {sql}")
            got = db.execute_unnamed(f"fetch {limit + 1} from answer")
    found = [tuple(row) for row in got.rows or ()]
    names = tuple(column["name"] for column in got.columns or ())
    return Rows(names, tuple(found[:limit]), len(found) > limit, began, "it was read then")


def _only_these(db: Any, sql: str, tables: Sequence[Table]) -> None:
    """A second look, by the server's own plan: a text that two parsers read differently is refused."""
    plan = db.execute_unnamed(f"explain (format json, verbose) {sql}").rows[0][0]
    used = set(_relations(plan))
    if not used:
        return
    names = ", ".join(_literal(table.name) for table in tables) or "null"
    schema = _literal(tables[0].schema if tables else "")
    below = {tuple(row) for row in db.execute_unnamed(_BELOW.format(schema=schema, names=names)).rows}
    if not used <= below:
        others = ", ".join(".".join(pair) for pair in sorted(used - below)[:5])
        raise Failed(BAD_DATA, f"PostgreSQL reads other tables in it: {others}", "write it plainer")


def _relations(plan: Any) -> Iterator[tuple[str, str]]:
    """(schema, relation) of every scan in a plan."""
    if isinstance(plan, dict):
        if "Relation Name" in plan:
            yield plan.get("Schema", ""), plan["Relation Name"]
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from _relations(part)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _reading(seconds: float) -> Iterator[Any]:
    """A connection in a transaction that reads only; what the server says ends the tool in one line."""
    try:
        from pg8000.exceptions import DatabaseError, InterfaceError
    except ImportError:
        raise Failed(78, "PostgreSQL cannot be asked: pg8000 is not installed",
                     "pip install 'harness[postgres]'") from None
    try:
        with closing(_connect(_url())) as db:
            db.execute_unnamed("begin transaction read only")
            db.execute_unnamed(f"set local statement_timeout = {max(1, int(seconds * 1000))}")
            yield db
    except DatabaseError as error:
        said = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        raise _explained(said, seconds) from None
    except (InterfaceError, OSError) as error:
        raise Failed(UNAVAILABLE, f"the server of {VARIABLE} cannot be reached: {clip(str(error), 120)}",
                     "see that it runs, and that its host and port are right") from None


def _explained(said: dict[str, str], seconds: float) -> Failed:
    code, text = said.get("C", ""), clip(said.get("M", "an error without words"), 200)
    if code == _TIMED_OUT:
        return too_slow(seconds)
    if code in _DENIED:
        return Failed(77, f"the server of {VARIABLE} refuses the user: {text}", "correct what is in the URL")
    if code.startswith(("08", "53", "57", "3D")):
        return Failed(UNAVAILABLE, f"the server of {VARIABLE} cannot answer: {text}",
                      "try later, or correct the database name")
    return Failed(BAD_DATA, f"PostgreSQL refuses the query: {text}", "correct the SQL")


def _url() -> SplitResult:
    text = os.environ.get(VARIABLE, "")
    if not text:
        raise Failed(77, f"no {VARIABLE}", "set it to postgresql://user:password@host/database")
    try:
        url = urlsplit(text)
        known = url.scheme in ("postgresql", "postgres") and bool(url.hostname) and bool(url.username) \
            and (url.port or 1) > 0
    except ValueError:
        known = False
    if not known:
        raise Failed(78, f"{VARIABLE} is no URL of a PostgreSQL server",
                     "set it to postgresql://user:password@host/database")
    return url


def _connect(url: SplitResult) -> Any:
    from pg8000.native import Connection

    host, port = url.hostname or "", url.port or 5432
    through = _tunnel(host, port)
    return Connection(
        unquote(url.username or ""), host=host, port=port, database=unquote(url.path.lstrip("/")) or None,
        password=unquote(url.password) if url.password else None, timeout=_WAIT + 50, application_name="harness",
        ssl_context=_encryption(url), sock=through, startup_params={"default_transaction_read_only": "on"})


def _encryption(url: SplitResult) -> Any:
    """`sslmode` as libpq names it. Without it: verified, except on this machine, where nothing is encrypted."""
    import ssl

    here = url.hostname in ("localhost", "127.0.0.1", "::1")
    mode = parse_qs(url.query).get("sslmode", ["disable" if here else "verify-full"])[-1]
    if mode == "disable":
        return None
    context = ssl.create_default_context()
    if mode in ("require", "prefer", "allow"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _tunnel(host: str, port: int) -> socket.socket | None:
    """A connection through the proxy that confinement names; None where there is none."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("ALL_PROXY")
    if not proxy or "HARNESS_RUN" not in os.environ:
        return None
    place = urlsplit(proxy)
    link = socket.create_connection((place.hostname or "127.0.0.1", place.port or 80), _WAIT)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    link.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = link.recv(1)
        if not part or len(head) > 8192:
            raise OSError("the proxy said nothing that can be read")
        head += part
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if " 200 " not in f"{status} ":
        raise OSError(f"the proxy says {status.partition(' ')[2]}")
    return link
