"""A program that generates answers with llama-cpp-python's own chat handler, for comparison with ours.

It reads the arguments of `generate_answers` as JSON from standard input and writes the answers as JSON to standard
output. Tests run it as a separate process, because it imports all of `llama_cpp`, which `bindings.py` avoids.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from llama_cpp import Llama, LlamaGrammar
from llama_cpp.llama_chat_format import MTMDChatHandler

from imgproc_local.vision.llm.prompt import GRAMMAR


def generate_answers(text: str, mmproj: str, questions: list[tuple[str, str, str]]) -> list[str]:
    """The answers of the model in the files `text` and `mmproj`.

    Questions are the prompt before the picture, the data URL of the picture, and the prompt after it.
    """
    handler = MTMDChatHandler(clip_model_path=mmproj, verbose=False, use_gpu=False)
    model = Llama(text, chat_handler=handler, n_ctx=2048, verbose=False)
    grammar = LlamaGrammar.from_string(GRAMMAR, verbose=False)
    responses: list[Any] = [
        model.create_chat_completion(
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": before},
                        {"type": "image_url", "image_url": {"url": url}},
                        {"type": "text", "text": after},
                    ],
                }
            ],
            grammar=grammar,
            max_tokens=128,
            temperature=0.0,
            repeat_penalty=1.0,
        )
        for before, url, after in questions
    ]
    return [response["choices"][0]["message"]["content"] for response in responses]


if __name__ == "__main__":
    json.dump(generate_answers(**json.load(sys.stdin)), sys.stdout)
