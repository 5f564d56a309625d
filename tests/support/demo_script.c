/* See demo_script.h. */
#include "tests/support/demo_script.h"

#define SYSTEM                                                                                     \
	"<|im_start|>|system|\n|You| are| a| helpful| AI| assistant| named| Sm|ol|LM|,| trained| by| " \
	"H|ugging| Face|.| You| answer| in| a| few| short| sentences|.| You| say| so| when| you| do| " \
	"not| know|.| You| never| invent| numbers|.|<|im_end|>|\n"
#define USER(text) "|<|im_start|>|user|\n|" text "|<|im_end|>|\n|<|im_start|>|assistant|\n"
#define HELLO "I| can| answer| questions|,| write| text| and| explain| ideas|."
#define SKY                                                                                        \
	"The| sky| appears| blue| because| of| a| phenomen|on| called| Ray|leigh| scattering|.| "      \
	"When| sunlight| enters| Earth|'s| atmosphere|,| it| encounters| tiny| molecules| of| gases| " \
	"such| as| nitrogen| and| oxygen|.| These| molecules| scat|tering| short| waves| more| than| " \
	"long| ones|,| so| blue| light| reaches| us| from| everywhere|:| a| 蓝色| sky| "             \
	"\xc3|\xa9|clair|ant|.\n\n|At| sunset| the| path| through| the| air| is| longer| and| the| "   \
	"blue| is| gone|,| and| red| and| orange| are| left|."

const struct demo_script demo_script[DEMO_REQUESTS] = {
	{ 1, 0, 0, EV_REQUEST_KIND_chat, 1, "Hello! What can you do?",
		SYSTEM USER("Hello|!| What| can| you| do|?"), HELLO, 0.3 },
	{ 2, 0, 0, EV_REQUEST_KIND_chat, 16, "Why is the sky blue?",
		SYSTEM USER("Hello|!| What| can| you| do|?") "|" HELLO "|<|im_end|>|\n" USER(
			"Why| is| the| sky| blue|?"),
		SKY, 0.62 },
	{ 3, 0, 1, EV_REQUEST_KIND_load, 26, "List the first ten primes",
		SYSTEM USER("List| the| first| ten| primes"),
		"2|,| |3|,| |5|,| |7|,| |11|,| |13|,| |17|,| |19|,| |23|,| |29|.| A| prime| has| no| "
		"divisor| but| one| and| itself|.| There| is| no| largest| one|:| Euclid| knew| the| "
		"proof|.| Take| any| list| of| primes|,| multiply| them| and| add| one|.",
		0.7 },
	{ 4, 0, 2, EV_REQUEST_KIND_load, 34, "Translate to French",
		SYSTEM USER("Translate| to| French|:| good| day"),
		"Bon|jour|.| One| may| also| say| \"|bonne| journ|\xc3\xa9|e|\"| when| one| leaves|,| and| "
		"bons|oir| in| the| evening|.| Both| are| polite|.| Among| friends| salut| will| do|.",
		0.5 },
	{ 5, 0, 3, EV_REQUEST_KIND_load, 42, "Write a haiku",
		SYSTEM USER("Write| a| haiku| about| memory"),
		"Pages| of| morning|\n|a| key| finds| its| old| value|\n|the| window| slides| "
		"on|\n\n|Rain| on| the| roof| tiles|\n|each| drop| attends| to| the| last|\n|and| softly| "
		"lets| go",
		0.4 },
	{ 6, 0, 4, EV_REQUEST_KIND_load, 50, "Summarise this book", "too| long", "", 0 },
	{ 7, 2, 1, EV_REQUEST_KIND_fork, 94, "Why is the sky blue?",
		SYSTEM USER("Hello|!| What| can| you| do|?") "|" HELLO "|<|im_end|>|\n" USER(
			"Why| is| the| sky| blue|?"),
		"Air| mole|cules| scatter| blue| light| more| than| red| light|,| so| the| sky| is| blue|.",
		0.5 },
	{ 8, 2, 2, EV_REQUEST_KIND_fork, 94, "Why is the sky blue?",
		SYSTEM USER("Hello|!| What| can| you| do|?") "|" HELLO "|<|im_end|>|\n" USER(
			"Why| is| the| sky| blue|?"),
		"Because| of| Ray|leigh| scattering|:| gas| particles|,| which| scatter| short| waves|,| "
		"send| blue| light| all| over| the| sky|.",
		0.5 },
	{ 9, 0, 5, EV_REQUEST_KIND_load, 118, "Name three rivers", SYSTEM USER("Name| three| rivers"),
		"The| Nile|,| the| Amazon| and| the| Rhine|.", 0.5 },
};
