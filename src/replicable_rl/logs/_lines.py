"""Where rows of text begin and end, byte by byte, and which is the first that is not as it must be.

Readers differ in what they make of a field too many, of a quote inside of a value, or of lines that end in several
ways. What passes here is read alike by all of them.
"""

from __future__ import annotations

from typing import Any

from replicable_rl.compiled import compiled

FIELDS, QUOTE, ENDS, LONG, MARK = range(1, 6)  # what may be wrong
_BEGIN, _PLAIN, _BLANK, _QUOTED, _CLOSED, _RETURN = range(6)  # where in a field: at its begin, in its text, ...


@compiled
def delimited(
    data: Any, state: Any, last: int, longest: int, is_letter: Any, delimiter: int, fields: int, has_returns: bool
) -> int:
    """Go on with a file of delimited values, to the row ``last``; return what is wrong with the one that begins there.

    ``state`` holds the line on which the row begins, the line, how many rows there were, the bytes of this one so far,
    whether one of them is no end of a line, its fields before this one, and where in a field the next byte is.
    """
    first, line, rows, size, filled, found, mode = state
    begin, wrong = -size, 0
    for i in range(data.size):
        byte = data[i]
        if mode == _PLAIN and is_letter[byte]:
            continue
        if byte == 0 or (byte == 239 and i + 2 < data.size and data[i + 1] == 187 and data[i + 2] == 191):
            wrong = MARK
        elif mode == _QUOTED:
            line += byte == 10
            mode = _CLOSED if byte == 34 else _QUOTED
        elif byte == delimiter and mode != _RETURN:
            filled, found, mode = 1, found + 1, _BEGIN
        elif byte == 10 and (mode == _RETURN) == has_returns:
            if filled and found + 1 != fields:
                found, wrong = found + 1, FIELDS
            elif i - begin > longest:
                wrong = LONG
            else:
                line += 1
                rows += filled
                if filled and rows == last:
                    break
                first, begin, filled, found, mode = line, i if filled else begin, 0, 0, _BEGIN
        elif byte == 10 or mode == _RETURN:
            wrong = ENDS
        elif byte == 13:
            mode = _RETURN
        elif byte == 34 and mode != _BLANK:
            filled, mode = 1, _QUOTED
        elif byte == 34 or mode == _CLOSED:
            wrong = QUOTE
        else:
            filled, mode = 1, _BLANK if byte == 32 or byte == 9 else _PLAIN
        if wrong:
            break
    if not wrong and data.size - begin > longest:
        wrong = LONG
    state[:] = first, line, rows, data.size - begin, filled, found, mode
    return wrong
