"""Pages about programs: `functrace.show` writes a program, its source lines, residuals and memory
into one HTML file.

* `show.py`: the public function; records the program;
* `payload.py`: the program as JSON data, with `roles.py` (forward or reverse pass), `grouping.py`
  (what is collapsed), `crossing.py` (residuals) and `sources.py`;
* `page.py`: `ProgramPage`, the HTML; `assets/` has its JavaScript and CSS.

Layer: 8 (api).
"""
