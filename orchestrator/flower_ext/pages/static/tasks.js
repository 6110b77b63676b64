// The list of tasks: each opens by its name, those that failed have a button, and the list keeps up to date.
(function () {
    "use strict";

    const EVERY_MS = 3000;
    const prefix = () => document.getElementById("url_prefix").value;

    function button(row) {
        const form = document.createElement("form");
        form.method = "post";
        form.action = prefix() + "/task/retry/" + encodeURIComponent(row.uuid);
        const press = document.createElement("button");
        press.className = "btn btn-danger btn-sm task-retry";
        press.title = "Go on with run " + row.run + ": what failed and all that is missing";
        press.textContent = "Retry";
        form.append(press);
        return form;
    }

    function decorate(table) {
        // The order of the columns is the server's: the first is the name, the last the retry.
        table.rows({page: "current"}).every(function () {
            const row = this.data();
            const cells = this.node().cells;
            const link = cells[0].querySelector("a");
            link.href = prefix() + "/task/" + encodeURIComponent(row.uuid);
            link.title = row.uuid;
            if (row.retry === "now") {
                cells[cells.length - 1].replaceChildren(button(row));
            }
        });
    }

    $(function () {
        // Flower makes the table in a callback like this one, which was asked for before.
        const table = $("#tasks-table").DataTable();
        table.on("draw.dt", () => decorate(table));
        const run = new URLSearchParams(window.location.search).get("run");
        if (run) {
            table.search("args:run=" + run).draw();
        }
        setInterval(function () {
            if (!document.querySelector("#tasks-table form:focus-within")) {
                table.ajax.reload(null, false);
            }
        }, EVERY_MS);
    });
}());
