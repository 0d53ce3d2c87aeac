"""Convert: the picture as WebP or AVIF."""

from __future__ import annotations

from imgproc_local.domain.job import StageName
from imgproc_local.domain.stop import CheckStop
from imgproc_local.engine.stage import CODECS_LANE, Output, Stage, WorkItem
from imgproc_local.engine.workers import Workers


def run(work: WorkItem, check_stop: CheckStop) -> Output:
    """The picture in the format `work.convert_to`, at the target score. Runs in a worker."""
    from imgproc_local.codecs.convert import convert_file
    from imgproc_local.codecs.embedded import private_kinds
    from imgproc_local.codecs.picture.source import ResultOptions

    options = work.options
    result_options = ResultOptions(options.target_score, options.keep_location, options.effort)
    data = convert_file(work.original, work.info, work.convert_to, check_stop, result_options, work.result_size)
    removed = private_kinds(work.original, work.info, options.keep_location)
    return Output(data=data, format=work.convert_to, removed=removed)


def stage(workers: Workers) -> Stage:
    """The stage, which converts in a worker process."""

    def run_in_worker(work: WorkItem, check_stop: CheckStop) -> Output:
        return workers.run(run, work, work.info, check_stop)

    return Stage(StageName.CONVERT, CODECS_LANE, run_in_worker, workers.prepare)
