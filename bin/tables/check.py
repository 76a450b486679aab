"""SQL before any database sees it: one read, of tables that were named, with columns that exist. Needs sqlglot.

Refuses what it cannot check: a second statement, a table function, an unknown function, a column of a source it does
not know. The database's own read-only connection is the second guard, not this one's excuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from oncall.output import clip, stop

from tables.catalog import near
from tables.schema import Table

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

# Names that sqlglot has no type for and that only compute. Anything else is refused: some databases have functions that
# read files, sleep, or run the SQL in their argument.
_COMPUTES = """
char changes concat_ws date_part datediff datetime dayname dayofweek dayofyear format glob hex ifnull iif instr
julianday last_day likelihood likely ltrim mod monthname nullif octet_length printf quote random rtrim soundex
sqlite_version strftime substr substring time total trunc typeof unhex unicode unixepoch unlikely weekofyear yearweek
to_char to_date to_timestamp age make_date make_timestamp cume_dist percent_rank string_agg group_concat array_length
cardinality date_bin justify_days width_bucket regr_slope regr_intercept mode quantile_cont quantile_disc median
strptime list_sum json_extract json_valid json_type json_array_length json_array json_object json_group_array
json_group_object cot sind cosd tand asind acosd atand atan2d acosh asinh atanh sinh cosh tanh log2 log10 degrees
radians pi
"""
_HARMLESS = frozenset(_COMPUTES.split())
_HIDDEN = {"sqlite": {"rowid", "oid", "_rowid_"}, "duckdb": {"rowid"}, "postgres": {"ctid", "xmin"}}
_BUILT_IN = frozenset({
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "true", "false"})
_MOST = 20_000

Offer = set[str] | None
"""The columns of a source; None where only the database knows them."""


class Refused(Exception):
    """The SQL is refused; the message says why, `fix` what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def check(sql: str, dialect: str, named: Sequence[Table], known: Sequence[Table]) -> list[Table]:
    """The tables that the SQL reads, all among `named`. `known` are all of the source, for nearest names.

    Raises Refused for anything but one read of named tables with columns that exist.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    read = _Reading(dialect, named, known)
    try:
        tree = _one_read(sql, dialect)
        _only_reads(tree)
        scopes = traverse_scope(tree)
        for scope in scopes:
            read.sources(scope)
        for scope in scopes:
            read.columns(scope)
    except SqlglotError as error:
        raise Refused(f"cannot be checked: {clip(str(error), 160)}", "write it plainer: one alias a table") from None
    except RecursionError:
        raise Refused("nested too deep to be checked", "write it plainer") from None
    missed = [node for node in tree.find_all(exp.Table, exp.Column) if id(node) not in read.seen]
    if missed:
        raise Refused(f"cannot be checked: {clip(missed[0].sql(dialect), 80)}", "name tables in FROM and JOIN only")
    return list(read.tables.values())


def checked(sql: str, dialect: str, named: Sequence[Table], known: Sequence[Table]) -> list[Table]:
    """As `check`, for a tool: stops with exit 65 where the SQL is refused, and 78 where sqlglot is missing."""
    try:
        return check(sql, dialect, named, known)
    except ImportError:
        return stop(78, "the SQL cannot be checked: sqlglot is not installed", "pip install 'harness[tables]'")
    except Refused as refused:
        return stop(65, f"refused: {refused}", refused.fix)


def _one_read(sql: str, dialect: str) -> exp.Query:
    """The parsed statement, when it is one query."""
    import logging

    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    if len(sql) > _MOST or "\0" in sql:
        raise Refused(f"over {_MOST:,} characters, or with a NUL", "ask for less at once")
    try:
        found = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    except SqlglotError as error:
        raise Refused(f"no SQL: {clip(_plain(error), 160)}", "write one SELECT") from None
    if len(found) != 1:
        raise Refused(f"{len(found)} statements", "write one SELECT")
    tree = found[0]
    if not isinstance(tree, exp.Query):
        raise Refused(f"{tree.key.upper()} is no read", "write one SELECT")
    return tree


def _plain(error: Exception) -> str:
    """sqlglot's message without its marks for the terminal."""
    details = getattr(error, "errors", None)
    return str(details[0].get("description", "")) if details else re.sub(r"\x1b\[\d*m", "", str(error))


def _only_reads(tree: exp.Query) -> None:
    """Nothing inside writes, locks, or calls what is not known to be harmless."""
    from sqlglot import exp

    writes = (exp.DDL, exp.DML, exp.Command, exp.Into, exp.Lock, exp.Pragma, exp.Set, exp.Attach, exp.Detach)
    for node in tree.walk():
        if isinstance(node, writes) and not isinstance(node, exp.Query):
            raise Refused(f"{node.key.upper()} is no read", "write one SELECT")
        if isinstance(node, exp.Pivot):
            raise Refused("PIVOT cannot be checked", "write CASE WHEN in a plain SELECT")
        if isinstance(node, (exp.Parameter, exp.Placeholder)):
            raise Refused("a placeholder has no value", "write the value")
        if isinstance(node, exp.Lateral | exp.Unnest | exp.UDTF) and not isinstance(node, exp.Values | exp.Subquery):
            raise Refused("a function in FROM cannot be checked", "name tables in FROM and JOIN only")
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc | exp.NextValueFor):
            name = str(node.this).lower() if isinstance(node.this, str) else node.key
            if name not in _HARMLESS:
                raise Refused(f"no function {name} that is known to be harmless{_hint(near(name, list(_HARMLESS)))}",
                              "use a common function")


class _Reading:
    """What the scopes of one statement read; owns the tables found so far."""

    def __init__(self, dialect: str, named: Sequence[Table], known: Sequence[Table]) -> None:
        self.dialect = dialect
        self.named = {table.name.lower(): table for table in named}
        self.known = known
        self.tables: dict[str, Table] = {}
        self.seen: set[int] = set()

    def sources(self, scope: Scope) -> None:
        """Note the tables of a scope; raises Refused for one that was not named."""
        from sqlglot import exp

        for node, source in scope.selected_sources.values():
            if isinstance(node, exp.Table):
                self.seen.add(id(node))
            if isinstance(source, exp.Table):
                self.table(source)

    def table(self, node: exp.Table) -> Table:
        """The named table that a node of the tree means."""
        from sqlglot import exp

        if not isinstance(node.this, exp.Identifier):
            raise Refused("a function in FROM cannot be checked", "name tables in FROM and JOIN only")
        found = self.named.get(node.name.lower())
        if found is None:
            raise self._unread(node)
        if node.catalog or (node.db and node.db.lower() not in ("main", "public", found.domain.lower())):
            raise Refused(f"{node.sql(self.dialect)} is in another database than {found.path}", f"write {found.name}")
        self.tables[found.path] = found
        return found

    def _unread(self, node: exp.Table) -> Refused:
        name = node.name
        exists = any(table.name.lower() == name.lower() for table in self.known)
        if exists:
            fix = f"look at it with describe-table, then give --table {name}"
            return Refused(f"table {name} is not among --table", fix)
        close = near(name, [table.name for table in self.known])
        return Refused(f"no table {name}{_hint(close)}", "use a table that find-tables shows")

    def columns(self, scope: Scope) -> None:
        """Raises Refused for a column of the scope that no source has."""
        from sqlglot import exp

        own = dict(self._offered(scope))
        for column in scope.find_all(exp.Column):
            self.seen.add(id(column))
            if column.table:
                self._of(scope, column, own)
            elif not isinstance(column.this, exp.Star):
                self._bare(scope, column, own)
        for join in scope.find_all(exp.Join):
            for identifier in join.args.get("using") or ():
                self._exists(identifier.name, own)

    def _of(self, scope: Scope, column: exp.Column, own: dict[str, Offer]) -> None:
        """`table.column`, or `table.*`."""
        from sqlglot import exp

        table = column.table
        offered = self._named(scope, table)
        if offered is None:
            raise Refused(f"no table or alias {table}{_hint(near(table, list(own)))}", "name one of FROM or JOIN")
        if not isinstance(column.this, exp.Star):
            self._exists(column.name, {table: offered[0]}, f" in {table}")

    def _bare(self, scope: Scope, column: exp.Column, own: dict[str, Offer]) -> None:
        """A column without its table: of this query, of one around it, or an alias."""
        name, quoted = column.name, bool(column.this.args.get("quoted"))
        if name.lower() in _BUILT_IN and not quoted:
            return
        everything: dict[str, Offer] = {**own, "its own": _aliases(scope)}
        outer = scope.parent
        while outer is not None:
            everything |= {f"{id(outer)}.{key}": offered for key, offered in self._offered(outer)}
            outer = outer.parent
        self._exists(name, everything, "", quoted)

    def _exists(self, name: str, offered: dict[str, Offer], where: str = "", quoted: bool = False) -> None:
        if any(names is None for names in offered.values()):
            return
        known = sorted({one for names in offered.values() for one in names or ()})
        if name.lower() in {one.lower() for one in known} or name.lower() in _HIDDEN.get(self.dialect, ()):
            return
        fix = "put text in 'single quotes'" if quoted else "use a column that describe-table shows"
        raise Refused(f"no column {name}{where}{_hint(near(name, known))}", fix)

    def _named(self, scope: Scope, name: str) -> tuple[Offer] | None:
        """What the source of that name offers, here or in a query around; None where there is none."""
        at: Scope | None = scope
        while at is not None:
            for key, offered in self._offered(at):
                if key.lower() == name.lower():
                    return (offered,)
            at = at.parent
        return None

    def _offered(self, scope: Scope) -> Iterator[tuple[str, Offer]]:
        """The sources of a scope with their columns."""
        from sqlglot import exp

        for name, (_, source) in scope.selected_sources.items():
            if isinstance(source, exp.Table):
                yield name, {column.name for column in self.table(source).columns}
            else:
                yield name, self._output(source)

    def _output(self, scope: Scope) -> Offer:
        """The columns that a subquery or a CTE gives."""
        from sqlglot import exp

        renamed = _renamed(scope)
        if renamed:
            return renamed
        tree = scope.expression
        if not isinstance(tree, exp.Query):
            return None
        if not tree.is_star:
            return set(tree.named_selects)
        if not isinstance(tree, exp.Select):
            return None
        found = {name for name in tree.named_selects if name != "*"}
        for _, offered in self._offered(scope):
            if offered is None:
                return None
            found |= offered
        return found


def _aliases(scope: Scope) -> set[str]:
    """Names that the SELECT itself gives, which ORDER BY and others may use."""
    from sqlglot import exp

    tree = scope.expression
    if isinstance(tree, exp.Select):
        return {item.alias for item in tree.expressions if isinstance(item, exp.Alias)}
    return set(tree.named_selects) if isinstance(tree, exp.Query) else set()


def _renamed(scope: Scope) -> set[str]:
    """The columns of `WITH name(a, b)` or `(…) AS name(a, b)`."""
    from sqlglot import exp

    parent = scope.expression.parent
    while isinstance(parent, exp.Subquery) and not parent.alias:
        parent = parent.parent
    alias = parent.args.get("alias") if isinstance(parent, exp.CTE | exp.Subquery) else None
    return {column.name for column in alias.columns} if isinstance(alias, exp.TableAlias) else set()


def _hint(close: Sequence[str]) -> str:
    return f"; near: {', '.join(close)}" if close else ""
