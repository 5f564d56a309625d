/* Numbers of a sheet of formulas as text: for the view and for `cutaway formulas`. */
#ifndef CUTAWAY_TUI_VIEW_FORMULAS_H
#define CUTAWAY_TUI_VIEW_FORMULAS_H

#include "fold/formulas_sheet.h"
#include "tui/views/view_util.h"

/* buf: [VIEW_NUM]; what is absent is "–". */
const char *view_formula_number(char *buf, enum formula_unit unit, double value);
/* What the letters in the formulas stand for. */
extern const char view_formula_letters[];

#endif
