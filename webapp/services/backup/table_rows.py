"""Rows of a table as PostgreSQL's COPY text, which every version of the server reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from psycopg import sql

from webapp.services.backup.table_schema import Connection, Schema

BLOCK = 1 << 20


def copy_out(connection: Connection, schema: Schema, table: str, count: list[int]) -> Iterator[bytes]:
    """All rows of a table in blocks. Appends the number of rows to `count` at the end."""
    statement = sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(table), _columns(schema, table))
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            block = bytearray()
            for piece in copy:  # one row each
                block += piece
                if len(block) >= BLOCK:
                    yield bytes(block)
                    block.clear()
            yield bytes(block)
        count.append(cursor.rowcount)


def copy_in(connection: Connection, schema: Schema, table: str, blocks: Iterable[bytes]) -> int:
    """Append rows to a table. Returns their number."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), _columns(schema, table))
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for block in blocks:
                copy.write(block)
        return cursor.rowcount


def _columns(schema: Schema, table: str) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, schema.stored_columns(table)))
