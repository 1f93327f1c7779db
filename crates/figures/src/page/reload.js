// The training writes this page again at each checkpoint. A page that is hidden or zoomed in stays as it is.
setInterval(() => {
  if (!document.hidden && !document.querySelector(".zoomed")) location.reload();
}, 20000);
