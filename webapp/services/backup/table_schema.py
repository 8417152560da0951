"""Definition of a database's tables, read from PostgreSQL's catalogue: what Django's migrations create.

Views, functions, triggers and types that an operator added are not part of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]

_COLUMNS: LiteralString = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
       pg_get_expr(d.adbin, d.adrelid), CASE WHEN a.attcollation <> t.typcollation THEN l.collname END,
       CASE WHEN a.attidentity <> '' THEN pg_get_serial_sequence(quote_ident(c.relname), a.attname) END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum"""

_CONSTRAINTS: LiteralString = """
SELECT c.relname, k.conname, pg_get_constraintdef(k.oid)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND k.contype IN ('c', 'f', 'p', 'u', 'x')
ORDER BY k.contype = 'f', c.relname, k.conname"""

_INDEXES: LiteralString = """
SELECT pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
  AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
ORDER BY 1"""

_OTHERS: LiteralString = """
SELECT format('view %s', relname) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('v', 'm')
  AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
UNION ALL
SELECT format('trigger %s of %s', t.tgname, c.relname) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal
ORDER BY 1"""


@dataclass(frozen=True)
class TableColumn:
    """A column: SQL type with modifiers, default or generation expression, identity sequence."""

    table: str
    name: str
    type: str
    not_null: bool
    identity: str
    generated: str
    default: str | None
    collation: str | None
    sequence: str | None


@dataclass(frozen=True)
class Schema:
    """The tables of a PostgreSQL schema.

    Attributes:
        name: the schema, `public` by default.
        columns: of all tables, in their order.
        constraints: (table, name, definition), foreign keys last.
        indexes: statements, without those of constraints.
    """

    name: str
    columns: tuple[TableColumn, ...]
    constraints: tuple[tuple[str, str, str], ...]
    indexes: tuple[str, ...]

    @property
    def tables(self) -> list[str]:
        return list(dict.fromkeys(column.table for column in self.columns))

    def stored_columns(self, table: str) -> list[str]:
        """Columns with values of their own: not those that PostgreSQL computes."""
        return [column.name for column in self.columns if column.table == table and not column.generated]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schema:
        """Inverse of to_json. Raises KeyError, TypeError."""
        return cls(
            data["name"],
            tuple(TableColumn(**column) for column in data["columns"]),
            tuple((table, name, definition) for table, name, definition in data["constraints"]),
            tuple(data["indexes"]),
        )


def current_schema(connection: Connection) -> str:
    row = connection.execute("SELECT current_schema()").fetchone()
    return str(row[0]) if row and row[0] else ""


def read_schema(connection: Connection) -> Schema:
    """Definition of all tables of the current schema."""
    return Schema(
        current_schema(connection),
        tuple(TableColumn(*row) for row in connection.execute(_COLUMNS)),
        tuple((table, name, definition) for table, name, definition in connection.execute(_CONSTRAINTS)),
        tuple(definition for (definition,) in connection.execute(_INDEXES)),
    )


def other_objects(connection: Connection) -> list[str]:
    """Views and triggers that an operator added; a backup leaves them out."""
    return [name for (name,) in connection.execute(_OTHERS)]


def create_tables(connection: Connection, schema: Schema) -> None:
    """Create the tables without constraints and indexes, which are faster to build over all rows."""
    for table in schema.tables:
        columns = sql.SQL(", ").join(_column(column) for column in schema.columns if column.table == table)
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table), columns))


def add_constraints(connection: Connection, schema: Schema) -> None:
    """Create constraints and indexes. Foreign keys are checked against all rows."""
    for index in schema.indexes:
        connection.execute(_trusted(index))
    statement = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} ")
    for table, name, definition in schema.constraints:
        connection.execute(statement.format(sql.Identifier(table), sql.Identifier(name)) + _trusted(definition))


def sequence_values(connection: Connection, schema: Schema) -> dict[str, tuple[int, bool]]:
    """Last value of each identity sequence, and whether it was used."""
    values = {}
    statement = sql.SQL("SELECT last_value, is_called FROM ")
    for column in schema.columns:
        if column.sequence:
            row = connection.execute(statement + _trusted(column.sequence)).fetchone()
            assert row is not None
            values[column.sequence] = (int(row[0]), bool(row[1]))
    return values


def set_sequence_values(connection: Connection, values: dict[str, tuple[int, bool]]) -> None:
    for sequence, (value, used) in values.items():
        connection.execute("SELECT setval(%s, %s, %s)", [sequence, value, used])


def _column(column: TableColumn) -> sql.Composable:
    parts: list[sql.Composable] = [sql.Identifier(column.name), _trusted(column.type)]
    if column.collation:
        parts += [sql.SQL("COLLATE"), sql.Identifier(column.collation)]
    if column.generated:
        parts.append(_trusted(f"GENERATED ALWAYS AS ({column.default}) STORED"))
    elif column.identity:
        kind = "ALWAYS" if column.identity == "a" else "BY DEFAULT"
        parts.append(_trusted(f"GENERATED {kind} AS IDENTITY (SEQUENCE NAME {column.sequence})"))
    elif column.default is not None:
        parts += [sql.SQL("DEFAULT"), _trusted(column.default)]
    if column.not_null:
        parts.append(sql.SQL("NOT NULL"))
    return sql.SQL(" ").join(parts)


def _trusted(statement: str) -> sql.SQL:
    """SQL that PostgreSQL's own catalogue functions wrote, in this process or in the archive."""
    return sql.SQL(statement)
