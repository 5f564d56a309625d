/* Keys as the screens see them, decoded by term.c. */
#pragma once

enum key {
	KEY_UP_ = 0x110000,
	KEY_DOWN_,
	KEY_LEFT_,
	KEY_RIGHT_,
	KEY_HOME_,
	KEY_END_,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_ENTER_,
	KEY_ESC,
	KEY_TAB_,
	KEY_BACKTAB,
	KEY_BACKSPACE_,
	KEY_DELETE_,
	KEY_INSERT_,
	KEY_F1_,
	KEY_F5_ = KEY_F1_ + 4,
	KEY_F7_ = KEY_F1_ + 6,
	KEY_F8_,
	KEY_F9_,
	KEY_F10_,
	KEY_RESIZE_ = 0x110100,
	KEY_MOUSE_,
};
