// Long work: ask how far it is, and say when it is done.
const PAUSE = 400;

export async function watchJob(work, onDone) {
  const bar = work.querySelector("progress");
  const task = work.querySelector("[data-task]");
  for (;;) {
    await new Promise(resolve => setTimeout(resolve, PAUSE));
    const answer = await fetch(`/page/progress?job=${encodeURIComponent(work.dataset.job)}`);
    const progress = await answer.json();
    if (progress.done) break;
    task.textContent = progress.total ? `${progress.task}: ${progress.finished} of ${progress.total}` : progress.task;
    if (progress.total) {
      bar.max = progress.total;
      bar.value = progress.finished;
    }
  }
  onDone();
}
