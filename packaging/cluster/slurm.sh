#!/bin/sh
# sbatch packaging/cluster/slurm.sh SOURCE TARGET [OPTIONS…] – not run by the project: adapt partition, time and paths.
#SBATCH --job-name=imgproc-archive
#SBATCH --ntasks=32
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=24:00:00
set -eu

bin=/opt/imgproc-local/.venv/bin
set -a
. /etc/imgproc-local/cluster.env
set +a

scheduler="tls://$(hostname):8786"
"$bin/dask" scheduler --protocol tls --port 8786 --no-dashboard --dashboard-address 127.0.0.1:8787 &
# one worker for each task of the job; srun ends all of them with the job
srun --kill-on-bad-exit=0 "$bin/dask" worker "$scheduler" --nworkers 1 --nthreads 1 --memory-limit 0 --no-dashboard --dashboard-address 127.0.0.1:0 &
trap 'kill $(jobs -p)' EXIT
"$bin/imgproc-local" archive "$@" --scheduler "$scheduler"
