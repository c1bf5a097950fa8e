"""The lab: a page in the browser, on this machine only, where one moves a slider and sees two runs agree or differ.

``setting`` is what the controls of the page say. ``measuring`` makes runs, audits, comparisons and diagnoses of it, and
knows the command that makes each of them again. ``showing`` turns them into HTML by the blocks of a report. ``page`` is
the marimo notebook that lays all this out, and computes nothing itself. ``server`` serves it.
"""
