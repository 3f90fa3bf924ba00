// An image can be dropped anywhere on the page, or pasted; a chosen file is sent at once.
export function acceptDrops(form) {
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  form.classList.add("live");

  const send = files => {
    const image = [...files].find(file => file.type.startsWith("image/"));
    if (!image) return;
    const transfer = new DataTransfer();
    transfer.items.add(image);
    input.files = transfer.files;
    form.requestSubmit();
  };
  input.addEventListener("change", () => input.files.length && form.requestSubmit());
  document.addEventListener("paste", event => send(event.clipboardData.files));
  document.addEventListener("dragover", event => {
    event.preventDefault();
    form.classList.add("over");
  });
  document.addEventListener("dragleave", event => event.relatedTarget || form.classList.remove("over"));
  document.addEventListener("drop", event => {
    event.preventDefault();
    form.classList.remove("over");
    send(event.dataTransfer.files);
  });
}
