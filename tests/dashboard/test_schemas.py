"""Pages register schemas, set compatibility and delete versions and subjects, or show the registry's error."""

import pytest

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard import schemas_view
from tests.dashboard.board import Board


async def change(board, name, /, **body):
    return await board.change(f"/api/changes/{name}", body)


async def register(board, schema, subject="orders/é-value", kind="AVRO"):
    return await change(board, "register-schema", subject=subject, type=kind, schema=schema)


def run(scenario):
    Board(has_registry=True).run(scenario)


def test_versions_are_registered_deleted_and_deleted_permanently():
    async def scenario(board):
        versions = "/api/schemas/versions?subject=orders/%C3%A9-value"
        assert await register(board, '"int"') == (200, {})
        assert await register(board, '"long"') == (200, {})
        (row,) = (await board.get("/api/schemas"))["subjects"]
        assert row == {
            "subject": "orders/é-value",
            "type": "AVRO",
            "versions": 2,
            "latest": 2,
            "id": 2,
            "level": "BACKWARD",
            "has_own_level": False,
        }
        shown = (await board.get(versions))["versions"]
        assert [(each["version"], each["id"], each["schema"]) for each in shown] == [(2, 2, '"long"'), (1, 1, '"int"')]
        assert await change(board, "delete-schema", subject="orders/é-value", version=1) == (200, {})
        assert [each["is_deleted"] for each in (await board.get(versions))["versions"]] == [False, True]
        assert await change(board, "delete-schema", subject="orders/é-value", version=1, permanent=True) == (200, {})
        assert await change(board, "delete-schema", subject="orders/é-value") == (200, {})
        assert (await board.get("/api/schemas"))["subjects"][0]["versions"] == 0
        assert await change(board, "delete-schema", subject="orders/é-value", permanent=True) == (200, {})
        assert (await board.get("/api/schemas"))["subjects"] == []
        assert (await board.exchange("GET", versions))[0] == 404

    run(scenario)


def test_compatibility_is_set_for_a_subject_and_for_all():
    async def scenario(board):
        assert await register(board, '"int"', "s") == (200, {})
        status, answer = await register(board, '"string"', "s")
        assert status == 409
        assert "incompatible" in answer["error"]
        assert await change(board, "set-compatibility", subject="s", level="NONE") == (200, {})
        assert await register(board, '"string"', "s") == (200, {})
        assert await change(board, "set-compatibility", subject=None, level="FULL") == (200, {})
        shown = await board.get("/api/schemas")
        assert (shown["level"], shown["subjects"][0]["level"], shown["subjects"][0]["has_own_level"]) == (
            "FULL",
            "NONE",
            True,
        )
        assert await change(board, "set-compatibility", subject="s", level=None) == (200, {})
        assert (await board.get("/api/schemas"))["subjects"][0]["level"] == "FULL"

    run(scenario)


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("register-schema", {"subject": "s", "type": "XML", "schema": "x"}, "type must be one of AVRO, JSON, PROTOBUF"),
        ("register-schema", {"subject": "s", "type": "AVRO", "schema": "{"}, "Invalid schema"),
        ("register-schema", {"subject": "s", "type": "AVRO", "schema": ""}, "schema must be a non-empty text"),
        ("register-schema", {"subject": "\x00", "type": "AVRO", "schema": '"int"'}, "The specified subject"),
        ("set-compatibility", {"subject": "s", "level": "SOME"}, "level must be one of NONE, BACKWARD"),
        ("delete-schema", {"subject": "absent"}, "Subject 'absent' not found."),
        ("delete-schema", {"subject": "absent", "version": 0}, "version must be a whole number from 1 to"),
        ("delete-schema", {"subject": "absent", "permanent": "yes"}, "permanent must be true or false"),
    ],
)
def test_a_refused_change_has_the_error_of_the_registry(name, body, reason):
    async def scenario(board):
        status, answer = await board.change(f"/api/changes/{name}", body)
        assert status == 409
        assert answer["error"].startswith(reason)

    run(scenario)


def test_without_a_registry_pages_say_so():
    async def scenario(board):
        assert (await board.get("/api/broker"))["has_registry"] is False
        said = {"error": "the broker has no schema registry; start it with --schema-registry"}
        assert await register(board, '"int"') == (404, said)
        for path in ("/api/schemas", "/api/schemas/versions?subject=s"):
            assert (await board.exchange("GET", path))[0] == 404

    Board().run(scenario)


def test_subjects_versions_and_texts_are_bounded(monkeypatch):
    for name in ("SUBJECTS_SHOWN_MAX", "VERSIONS_SHOWN_MAX", "TEXT_SHOWN_MAX"):
        monkeypatch.setattr(schemas_view, name, 2)

    async def scenario(board):
        await change(board, "set-compatibility", subject=None, level="NONE")
        for schema in ('"int"', '"long"', '"string"'):
            assert await register(board, schema, "s") == (200, {})
        for subject in ("a", "b"):
            assert await register(board, '"int"', subject) == (200, {})
        state = board.registry.state
        shown = finished(schemas_view.schemas(state))
        assert (shown["count"], [row["subject"] for row in shown["subjects"]]) == (3, ["a", "b"])
        shown = finished(schemas_view.schema_versions(state, "s"))
        assert shown["count"] == 3
        assert [(row["version"], row["schema"], row["is_cut"]) for row in shown["versions"]] == [
            (3, '"s', True),
            (2, '"l', True),
        ]

    run(scenario)
