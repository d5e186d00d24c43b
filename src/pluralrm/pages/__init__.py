"""What reports, studies, audits, claims and trainings look like: HTML pages, tables, and plots (matplotlib only here).

`document` and `style` load no matplotlib; `plots`, `lines`, `frame` and `svg` do. Equal input gives equal bytes: no
dates, hashed ids with a fixed salt, no settings of the machine. Text in a plot stays text. Colours are CSS variables,
for a light and a dark page; each kind of mark also has a shape of its own, so that no reading depends on colour.
"""
