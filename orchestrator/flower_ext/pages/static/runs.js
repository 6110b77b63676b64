// The page of runs, kept up to date without being loaded anew.
setInterval(async function () {
    "use strict";
    if (document.querySelector("#runs-page form:focus-within")) {
        return;
    }
    try {
        const answer = await fetch(window.location.href, {credentials: "same-origin"});
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = answer.ok && page.getElementById("runs-page");
        if (fresh) {
            document.getElementById("runs-page").replaceWith(fresh);
        }
    } catch (error) {
        return; // the next time, when the server is there again
    }
}, 2000);
