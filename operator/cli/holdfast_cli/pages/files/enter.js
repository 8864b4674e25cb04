// Keeps the secret of the printed address that is needed to act, and leaves that address.
"use strict";
if (location.hash) localStorage.setItem("holdfast", location.hash.slice(1));
location.replace("/jobs");
