"""process, poll, download with requests. BASE_URL, API_KEY, PICTURE and OUT come from the environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import requests


def main() -> None:
    base_url, out = os.environ["BASE_URL"], Path(os.environ["OUT"])
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {os.environ['API_KEY']}"

    with open(os.environ["PICTURE"], "rb") as picture:  # noqa: PTH123 - as most people write it
        answer = session.post(
            f"{base_url}/images/process",
            files={"image": picture},
            data=[("languages", "en"), ("languages", "de"), ("format", "webp")],
            timeout=60,
        )
    answer.raise_for_status()
    job_id = answer.json()["data"]["job_id"]

    for _ in range(120):
        answer = session.get(f"{base_url}/jobs/{job_id}", timeout=60)
        answer.raise_for_status()
        job = answer.json()["data"]
        if job["status"] in ("completed", "failed"):
            break
        time.sleep(0.5)
    if job["status"] != "completed":
        raise SystemExit(f"the job did not complete: {answer.text}")
    (out / "job.json").write_bytes(answer.content)

    for which, name in (("optimized", "optimized.jpg"), ("converted", "converted.webp")):
        answer = session.get(f"{base_url}/images/{job['image']['id']}/{which}", timeout=60)
        answer.raise_for_status()
        (out / name).write_bytes(answer.content)


if __name__ == "__main__":
    main()
