"""Few colours for code, which can be read on the theme's light and dark ground."""

from pygments.style import Style
from pygments.token import Comment, Keyword, Number, String


class Light(Style):
    background_color = "#f8f9fb"
    styles = {
        Keyword: "#1d56b0",
        Comment: "italic #5c6470",
        Comment.Preproc: "noitalic #8a3a8f",
        Number: "#b3400f",
        String: "#23693b",
    }


class Dark(Style):
    background_color = "#202020"
    styles = {
        Keyword: "#8ab8ff",
        Comment: "italic #a0a7b5",
        Comment.Preproc: "noitalic #dd9fe0",
        Number: "#f2a071",
        String: "#7fce98",
    }
