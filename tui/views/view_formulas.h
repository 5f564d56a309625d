/* Numbers of a sheet of formulas as text: for the view and for `cutaway formulas`. */
#ifndef CUTAWAY_TUI_VIEW_FORMULAS_H
#define CUTAWAY_TUI_VIEW_FORMULAS_H

#include "fold/formulas_sheet.h"
#include "tui/views/view_util.h"

/* What is absent is "–". */
struct view_text view_formula_number(enum formula_unit unit, double value);
/* What the letters in the formulas stand for. */
extern const char view_formula_letters[];

#endif
