"""The command lines of the table tools: the same options whether the tables are in files or on the warehouse's server.

Only argparse is loaded here, so that `--help` and a wrong option cost nothing.
"""

from __future__ import annotations

import argparse

WAREHOUSE = "$WAREHOUSE_URL"
"""The source of the tools in `warehouse/`, which have no `--source`."""
_SERVED = "; 69 no answer from the server; 77 no or bad WAREHOUSE_URL"
_CODES = "exit codes: 0 ok; 2 usage; 65 {refused}; 66 no such {thing}; 78 a library is missing"


class Command:
    """One tool's parser: what all of them share, and the source it reads."""

    def __init__(self, name: str, says: str, served: bool, examples: list[str], codes: str) -> None:
        self.source = WAREHOUSE if served else ""
        lead = f"warehouse/{name}" if served else f"{name} --source warehouse/"
        lines = ["examples:", *(f"  {lead} {example}" for example in examples), codes + (_SERVED if served else "")]
        self.parser = argparse.ArgumentParser(
            prog=f"warehouse/{name}" if served else name, description=says, epilog="\n".join(lines), allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter)
        if not served:
            self.parser.add_argument("--source", metavar="PATH", required=True, help="a database, a folder of them, "
                                     "or a JSON file: a plan or schemas")

    def wiki(self) -> None:
        self.parser.add_argument("--wiki", metavar="DIR", help="Markdown pages about tables")

    def limit(self, default: int, what: str, most: int) -> None:
        self.parser.add_argument("--limit", metavar="INT", type=int, default=default, help=f"{what}, at most {most}")

    def table(self, many: bool) -> None:
        how = {"action": "append"} if many else {}
        said = "each table that the SQL reads" if many else "TABLE or DOMAIN.TABLE"
        self.parser.add_argument("--table", metavar="NAME", required=True, help=said, **how)

    def read(self) -> argparse.Namespace:
        options = self.parser.parse_args()
        options.source = self.source or options.source
        return options


def _codes(refused: str, thing: str) -> str:
    return _CODES.format(refused=refused, thing=thing)


def find_domain(served: bool = False) -> None:
    command = Command("find-domain", "The domains a question is about, best first, as one JSON object.", served, [
        "'Which customers have not paid?'", "--limit 5 'How many singers are from France?'",
    ], _codes("not a database", "file"))
    command.parser.add_argument("question", metavar="QUESTION", help="the question, in people's words")
    command.wiki()
    command.limit(3, "domains to print", 20)
    options = command.read()
    from tables import find

    find.domains(options.source, options.question, options.wiki, options.limit)


def find_tables(served: bool = False) -> None:
    command = Command("find-tables", "The tables a question is about, best first, as one JSON object.", served, [
        "'Which customers have not paid?'", "--domain shop 'How many customers are from France?'",
    ], _codes("not a database", "file or domain"))
    command.parser.add_argument("question", metavar="QUESTION", help="the question, in people's words")
    command.parser.add_argument("--domain", metavar="NAME", help="only tables of this domain")
    command.wiki()
    command.limit(5, "tables to print", 20)
    options = command.read()
    from tables import find

    find.tables(options.source, options.question, options.domain, options.wiki, options.limit)


def describe_table(served: bool = False) -> None:
    command = Command("describe-table", "One table's columns, keys and rows, as one JSON object.", served, [
        "--table orders", "--table shop.orders",
    ], _codes("not a database", "file or table"))
    command.table(many=False)
    command.wiki()
    options = command.read()
    from tables import describe

    describe.table(options.source, options.table, options.wiki)


def sample_rows(served: bool = False) -> None:
    command = Command("sample-rows", "A few rows of one table, as one JSON object.", served, [
        "--table orders", "--table shop.orders --limit 20",
    ], _codes("not a database, or schemas only", "file or table") + "; 124 too slow")
    command.table(many=False)
    command.limit(5, "rows to print", 50)
    options = command.read()
    from tables import describe

    describe.sample(options.source, options.table, options.limit)


def explain_sql(served: bool = False) -> None:
    command = Command("explain-sql", "The plan of a query, which is not run, as one JSON object.", served, [
        "--table orders 'SELECT count(*) FROM orders'",
    ], _codes("the SQL is refused", "file or table"))
    command.parser.add_argument("sql", metavar="SQL", help="one SELECT")
    command.table(many=True)
    options = command.read()
    from tables import query

    query.explain(options.source, options.table, options.sql)


def query_sql(served: bool = False) -> None:
    command = Command("query-sql", "Runs one SELECT on named tables, as one JSON object and a CSV.", served, [
        "--table orders 'SELECT count(*) FROM orders'",
        "--table orders --table customers 'SELECT name, state FROM orders JOIN customers USING (customer_id)'",
    ], _codes("the SQL is refused", "file or table") + "; 73 the CSV cannot be written; 124 too slow")
    command.parser.add_argument("sql", metavar="SQL", help="one SELECT")
    command.table(many=True)
    command.limit(1000, "rows to write", 100_000)
    command.parser.add_argument("--seconds", metavar="NUM", type=float, default=10, help="time, at most 50")
    options = command.read()
    from tables import query

    query.run(options.source, options.table, options.sql, options.limit, options.seconds)
