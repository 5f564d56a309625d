/* Many C suites in one program, since a link of each takes half a second: the one runs by whose
 * name the program is called. Which there are `make` writes to suites.def; the main() of each was
 * compiled under a name of its own. */
#include <stdio.h>
#include <string.h>

#define SUITE(name) int name##_main(void);
#include "suites.def"
#undef SUITE

static const struct {
	const char *name;
	int (*run)(void);
} suites[] = {
#define SUITE(name) { #name, name##_main },
#include "suites.def"
#undef SUITE
};

int main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc ? argv[0] : "";

	for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++)
		if (!strcmp(suites[i].name, name))
			return suites[i].run();
	fprintf(stderr, "%s is no suite of this program\n", name);
	return 1;
}
