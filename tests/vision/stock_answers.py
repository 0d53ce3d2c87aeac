"""What llama-cpp-python's own chat handler writes, in a process of its own: pictures in, answers out, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from llama_cpp import Llama, LlamaGrammar
from llama_cpp.llama_chat_format import MTMDChatHandler

from imgproc_local.vision.llm.prompt import GRAMMAR


def answers(text: str, mmproj: str, questions: list[tuple[str, str]]) -> list[str]:
    handler = MTMDChatHandler(clip_model_path=mmproj, verbose=False, use_gpu=False)
    loaded = Llama(text, chat_handler=handler, n_ctx=2048, verbose=False)
    grammar = LlamaGrammar.from_string(GRAMMAR, verbose=False)
    written: list[Any] = [
        loaded.create_chat_completion(
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": url}},
                        {"type": "text", "text": question},
                    ],
                }
            ],
            grammar=grammar,
            max_tokens=128,
            temperature=0.0,
            repeat_penalty=1.0,
        )
        for url, question in questions
    ]
    return [answer["choices"][0]["message"]["content"] for answer in written]


if __name__ == "__main__":
    json.dump(answers(**json.load(sys.stdin)), sys.stdout)
