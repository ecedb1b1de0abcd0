// Starts the other scripts. A module runs when the page and its style sheet are there, so that they have the whole line until then.

document.head.append(document.getElementById("scripts").content);
