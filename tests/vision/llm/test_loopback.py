"""Models in Ollama, LM Studio and llama-server: what is sent, what each failure becomes, what is never contacted."""

from __future__ import annotations

import io
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from PIL import Image

from imgproc_local import compose
from imgproc_local.config import Config
from imgproc_local.domain.errors import SettingInvalid, StageCancelled
from imgproc_local.domain.image import EmbeddedMetadata, Pixels
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.vision.describer import Hints, PixelFacts, TextInPicture
from imgproc_local.vision.facts.describer import describe_from_facts
from imgproc_local.vision.llm import loopback as server_module
from imgproc_local.vision.llm.describer import LlmDescriber
from imgproc_local.vision.llm.loopback import PROGRAMS, parse_address
from tests.support.model_servers import (
    BLIND,
    ERRORS,
    GOOD,
    Behaviour,
    Handler,
    ModelServerDouble,
    disconnects,
    hangs,
    model_server,
    sends,
    writes,
)

_connections: list[object] = []


def _record_connections(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        _connections.append(arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0])


sys.addaudithook(_record_connections)


@pytest.fixture(autouse=True)
def _only_loopback_is_contacted() -> Iterator[None]:
    """Fails a test during which another address than 127.0.0.1 or ::1 is connected to, or a name is looked up."""
    _connections.clear()
    yield
    hosts = {connection[0] if isinstance(connection, tuple) else connection for connection in _connections}
    assert hosts <= {"127.0.0.1", "::1"}


PICTURE = Pixels(8, 6, bytes(range(144)))
HINTS = Hints(EmbeddedMetadata(), "old-barn.jpg")


def config(tmp_path: Path, double: ModelServerDouble, **settings: object) -> Config:
    """Settings with which the model of the double is used."""
    used = {"model": f"{double.program}:{double.model}", "program_url": double.url, **settings}
    return Config(data_dir=tmp_path, **used)  # type: ignore[arg-type]


def describe(describer: LlmDescriber, languages: str = "en") -> tuple[Translation, ...]:
    return describer.describe(PICTURE, languages.split(), HINTS, lambda: None)


def facts(languages: str = "en") -> tuple[Translation, ...]:
    return describe_from_facts(languages.split(), HINTS)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_model_describes_in_all_languages_and_a_rejected_answer_is_asked_for_again(
    tmp_path: Path, double: ModelServerDouble
) -> None:
    double.chats.append(writes(json.dumps(GOOD["de"])))  # in place of the English text
    texts = describe(compose.describer(config(tmp_path, double)), "de en")
    assert texts == tuple(
        Translation(code, GOOD[code]["filename"], GOOD[code]["alt_text"], TextSource.VISION, model=name)
        for code, name in dict.fromkeys(("de", "en"), f"{double.program}:{double.model}").items()
    )
    _, again, _ = double.questions
    assert "refused" in double.question_text(again)
    assert again.get("seed", again.get("options", {}).get("seed")) is not None


def test_a_question_has_the_picture_the_prompt_and_the_schema_with_thinking_off(
    tmp_path: Path, double: ModelServerDouble
) -> None:
    describe(compose.describer(config(tmp_path, double)))
    [question] = double.questions
    with Image.open(io.BytesIO(double.picture(question))) as picture:
        assert (picture.size, picture.tobytes()) == ((8, 6), PICTURE.rgb)
    text = double.question_text(question)
    assert "Write the alternative text" in text
    assert "old barn" in text
    assert text.endswith("Respond in English.")
    assert question["model"] == double.model
    assert question["stream"] is False
    if double.program == "ollama":
        assert question["think"] is False
        schema = question["format"]
        assert question["options"]["num_ctx"] >= 4096
    else:
        assert question["reasoning_effort"] == "none"
        assert question["chat_template_kwargs"] == {"enable_thinking": False}
        schema = question["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["alt_text", "filename"]


@pytest.mark.parametrize(
    ("program", "behaviour", "words"),
    [
        ("llama-server", writes(""), "wrote nothing"),
        ("ollama", writes("{" + "x" * 2 * server_module._MAX_BYTES), "did not answer like"),
        ("lmstudio", sends(200, b"<html>It works!</html>"), "did not answer like"),
        ("llama-server", sends(200, b"[" * 100_000), "did not answer like"),
        ("ollama", sends(307, None, {"Location": "http://192.0.2.1/v1/chat/completions"}), "failed with status 307"),
        ("lmstudio", disconnects, "does not answer"),
        ("lmstudio", sends(200, {"error": "No model", "message": "Load one"}), "failed with status 200 (No model)"),
        ("ollama", sends(404, {"error": "Not Found", "message": "Model x not found"}), "status 404 (Not Found)"),
        ("llama-server", sends(500, {"error": 7, "models": "x"}), "failed with status 500 (no message)"),
        *((name, sends(*each), f"failed with status {each[0]}") for name, errors in ERRORS.items() for each in errors),
    ],
)
def test_a_failure_is_logged_once_with_what_the_program_needs_and_facts_describe(
    program: str,
    behaviour: Behaviour,
    words: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the interval exceeds the timeout, so a request that is answered with status 503 is not repeated
    monkeypatch.setattr(server_module, "_LOADING_POLL_S", 1e6)
    with model_server(program) as double:
        describer = compose.describer(config(tmp_path, double))
        double.chats += [behaviour] * 2
        assert describe(describer, "en de") == facts("en de")
        assert len(double.questions) == 1, "the second language is not asked for"
        assert describe(describer) == facts()
        [warning] = warnings(caplog)
        assert f"{PROGRAMS[program].title} at {double.url} " in warning
        assert words in warning
        assert describe(describer)[0].source == TextSource.VISION


def test_the_answer_is_found_after_thoughts_and_without_the_json(tmp_path: Path, ollama: ModelServerDouble) -> None:
    """Some versions of Ollama ignore the schema while thinking is off."""
    answer = json.dumps(GOOD["en"])
    for written in (
        f"<think>It is a barn {{red}}.</think>\n{answer}",
        f"```json\n{answer}\n```",
        GOOD["en"]["alt_text"],
    ):
        ollama.chats.append(writes(written))
        assert describe(compose.describer(config(tmp_path, ollama)))[0].source == TextSource.VISION


def thinks(text: str, thoughts: str, key: str = "reasoning_content") -> Behaviour:
    """The model writes `text` after thoughts, which the program sends apart."""

    def answer(handler: Handler) -> None:
        document = handler.double.answer_document(text)
        message = document["message"] if "message" in document else document["choices"][0]["message"]
        message[key] = thoughts
        handler.send(200, document)

    return answer


def test_a_model_that_thinks_nevertheless_has_tokens_for_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for program, behaviour in (
        ("ollama", thinks("", "The user wants", "thinking")),
        ("lmstudio", thinks("", "The user wants")),
        ("llama-server", writes("<think>The user wants")),
    ):
        with model_server(program) as double:
            describer = compose.describer(config(tmp_path, double))
            double.chats.append(behaviour)
            assert describe(describer) == facts(), "it is not asked a second time"
            assert "wrote only thoughts" in warnings(caplog)[-1]
            [question] = double.questions
            assert (question.get("max_tokens") or question["options"]["num_predict"]) == 2000


def test_a_long_description_is_asked_for_with_a_schema_of_its_own(tmp_path: Path, double: ModelServerDouble) -> None:
    full = "Bar chart of the revenue. It rises from 12 in 2022 to 19 in 2023."
    double.chats += [writes(json.dumps(GOOD["en"])), writes(json.dumps({"long_description": full}))]
    chart = replace(HINTS, facts=PixelFacts("graphic"), text_in_picture=TextInPicture("Revenue 2022 12 2023 19"))
    [english] = compose.describer(config(tmp_path, double)).describe(PICTURE, ["en"], chart, lambda: None)
    assert (english.seo_alt_text, english.long_description) == (GOOD["en"]["alt_text"], full)
    schemas = [each.get("format") or each["response_format"]["json_schema"]["schema"] for each in double.questions]
    assert [schema["required"] for schema in schemas] == [["alt_text", "filename"], ["long_description"]]


def test_json_that_is_sent_as_a_thought_is_used(tmp_path: Path) -> None:
    with model_server("lmstudio") as double:
        double.chats.append(thinks("", json.dumps(GOOD["en"])))
        assert describe(compose.describer(config(tmp_path, double)))[0].source == TextSource.VISION
        assert len(double.questions) == 1


def test_a_slow_model_is_given_up_before_the_stage_times_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, double: ModelServerDouble
) -> None:
    double.chats.append(hangs)
    start = time.monotonic()
    assert describe(compose.describer(config(tmp_path, double, stage_timeout_s=1)), "en de") == facts("en de")
    assert time.monotonic() - start >= 0.3
    assert "did not answer within" in warnings(caplog)[0]
    assert double.disconnected.wait(60), "the request was not cancelled"


def test_a_program_that_loads_its_model_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_LOADING_POLL_S", 0.02)
    with model_server("llama-server") as double:
        double.chats += [sends(*ERRORS["llama-server"][-1])] * 3
        assert describe(compose.describer(config(tmp_path, double)))[0].source == TextSource.VISION


def test_a_cancelled_picture_ends_its_request_at_once(tmp_path: Path, double: ModelServerDouble) -> None:
    def check_stop() -> None:
        if double.questions:
            raise StageCancelled("Cancelled.")

    double.chats.append(hangs)
    start = time.monotonic()
    with pytest.raises(StageCancelled):
        compose.describer(config(tmp_path, double)).describe(PICTURE, ["en"], HINTS, check_stop)
    assert time.monotonic() - start < 60  # a stage may take ten minutes
    assert double.disconnected.wait(60), "the request was not cancelled"


def test_a_model_that_can_not_see_is_missing_or_runs_in_a_cloud_gets_no_picture(
    tmp_path: Path, double: ModelServerDouble
) -> None:
    blind = BLIND[double.program]
    problems = {blind: "can't see pictures", "gone": "has no model 'gone'"}
    if double.program == "llama-server":
        double.model = blind
    elif double.program == "ollama":
        problems |= dict.fromkeys(("qwen3-vl:235b-cloud", "mine"), "pictures would leave this machine")
    for name, words in problems.items():
        settings = config(tmp_path, double, model=f"{double.program}:{name}")
        assert words in (compose.used_model_status(settings).problem or "")
        assert describe(compose.describer(settings)) == facts()
    assert double.questions == []


def test_an_answer_of_another_model_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with model_server("lmstudio") as double:
        describer = compose.describer(config(tmp_path, double))
        for answered, source in ((f"{double.model}:2", TextSource.VISION), ("phi-2", None)):
            document = {**double.answer_document(json.dumps(GOOD["en"])), "model": answered}
            double.chats.append(sends(200, document))
            [english] = describe(describer)
            assert english.source == (source or facts()[0].source)
    assert "answered with the model phi-2 instead of" in warnings(caplog)[0]


def test_neither_the_environment_s_proxy_is_used_nor_localhost_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, double: ModelServerDouble
) -> None:
    assert parse_address("http://localhost:1234") == "http://127.0.0.1:1234"
    assert parse_address("http://[::1]:1234/") == "http://[::1]:1234"
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    settings = config(tmp_path, double, program_url=double.url.replace("127.0.0.1", "localhost"))
    assert describe(compose.describer(settings))[0].source == TextSource.VISION


@pytest.mark.parametrize(
    "url",
    [
        "http://192.168.1.5:11434",
        "http://ollama.example:11434",
        "http://127.0.0.1@192.0.2.1:11434",
        "http://localhost.example:11434",
        "http://2130706433:11434",
        "http://127.1:11434",
        "https://127.0.0.1:11434",
        "http://127.0.0.1",
        "http://127.0.0.1:11434/v1",
        "http://127.0.0.1:99999",
        "127.0.0.1:11434",
    ],
)
def test_only_loopback_addresses_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected http://127\.0\.0\.1:PORT"):
        parse_address(url)


def test_air_gapped_mode_refuses_a_model_in_another_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, double: ModelServerDouble
) -> None:
    with pytest.raises(SettingInvalid, match="air-gapped"):
        compose.compression_service(config(tmp_path, double, air_gapped=True))
    settings = config(tmp_path, double, air_gapped=True, model="")
    compose.model_store(settings).select(f"{double.program}:{double.model}")
    assert describe(compose.describer(settings)) == facts()
    assert "In air-gapped mode" in warnings(caplog)[0]
    assert "In air-gapped mode" in (compose.used_model_status(settings).problem or "")
    assert double.requests == []
