"""The list of models on the local page of services whose settings or models folder prevent something."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.service import running

TIMEOUT_S = 20


def test_air_gapped_and_fixed_services_say_so(tmp_path: Path) -> None:
    with running(tmp_path, air_gapped=True, model="none") as service:
        headers = service.page_session()
        with httpx.Client(base_url=service.root, headers=headers, timeout=TIMEOUT_S) as page:
            data = page.get("/local/models").json()["data"]
            assert (data["air_gapped"], data["fixed_by_setting"]) == (True, "none")
            refused = page.post("/local/models/gemma-4-e2b/install")
            assert refused.status_code == 409
            assert refused.json()["message"].startswith("air_gapped is true: nothing is downloaded.")
            assert "The setting model is 'none'" in page.post("/local/models/none/use").json()["message"]


def test_a_models_folder_that_is_missing_is_reported(tmp_path: Path) -> None:
    with running(tmp_path / "data", models_dir=str(tmp_path / "drive")) as service:
        headers = service.page_session()
        with httpx.Client(base_url=service.root, headers=headers, timeout=TIMEOUT_S) as page:
            data = page.get("/local/models").json()["data"]
            assert "Connect its drive" in data["folder_problem"]
            assert "gemma-4-e2b" in {one["name"] for one in data["models"]}
            for request in (page.post("/local/models/mine/use"), page.delete("/local/models/mine")):
                assert (request.status_code, "Connect its drive" in request.json()["message"]) == (409, True)
