#!/bin/sh
# Who may include whom (docs/design.md, "The layers"), and what no file may do. TAP.
cd "$(dirname "$0")/../.." || exit 1
n=0
failed=0
all=$(ls -d base kernels event engine fold trace sessions serve load simulate lab tui cli 2>/dev/null | tr '\n' ' ')
check() { # description, command whose output lists the violations
	n=$((n + 1))
	found=$(eval "$2")
	if [ -z "$found" ]; then
		echo "ok $n - $1"
	else
		failed=1
		echo "not ok $n - $1"
		echo "$found" | sed 's/^/# /'
	fi
}
includes() { # files of a folder that include a path matching a pattern, but for one file
	echo "grep -nE '^#include [\"<]($2)' $1 2>/dev/null | grep -vE '^(${3:-none})'"
}

may_include() { # folder, the other folders that it may include, with | between them
	check "$1 includes of the project only itself${2:+, }$(echo "$2" | sed 's/|/, /g')" \
		"grep -rnE '^#include \"($(echo "$all" | tr ' ' '|')none)/' $1 2>/dev/null | grep -vE '#include \"($1${2:+|}$2)/'"
}

# Inside a folder: a line for each of its own, with those of them that it may include, whose lines
# are above. So includes between folders go one way.
folders() { # the folder; the table is standard input
	while read -r own may; do
		from=$1/$own
		for other in $may; do
			case "$listed " in *" $1/$other "*) ;; *) check "$other has a line above $own" "echo no" ;; esac
		done
		check "$from includes of $1 only itself${may:+, }$(echo "$may" | sed 's/ /, /g')" \
			"grep -nE '^#include \"$1/' $from/*.[ch] | grep -vE '#include \"$1/($(echo "$own $may" | tr ' ' '|'))/[^/\"]*\"'"
		listed="$listed $from"
	done
	check "every folder of $1 has a line" \
		"find $1 -mindepth 2 -name '*.[ch]' | sed 's,/[^/]*\$,,' | sort -u | while read -r d; do case '$listed ' in *\" \$d \"*) ;; *) echo \$d ;; esac; done"
}
no_circles() { # folder; a header X_impl.h or X_private.h is a part of X
	check "no file of $1 includes itself through others" \
		"grep -roE '^#include \"$1/[^\"]*' $1 --include='*.[ch]' | sed -E 's/:#include \"/ /; s/(_impl|_private)?\.[ch]( |\$)/\2/g' | awk '\$1 != \$2' | tsort 2>&1 >/dev/null"
}

may_include base ''
may_include kernels 'base'
may_include event 'base'
may_include fold 'base|event'
may_include engine 'base|kernels|event'
may_include trace 'base|event|fold'
may_include sessions 'base|kernels|event|fold|engine|trace'
folders engine <<END
settings
visibility
memory visibility
model memory
arch model
text/jinja
text text/jinja model
grammar model text
sample settings
run model visibility
layer model run
ranks model run
draft arch memory model run sample
sched draft grammar memory settings text
sched/policy sched
core arch draft grammar memory model ranks run sample sched settings text
encode core
diffuse core sample sched settings
observe arch core draft model run visibility
search core
END
for folder in base event engine fold trace sessions serve load simulate lab cli; do no_circles $folder; done
may_include serve 'base|kernels|event|engine|trace|sessions'
may_include load 'base|kernels|event|engine|trace|sessions'
may_include simulate 'base|kernels|event|engine|load|sessions'
may_include lab 'base|kernels|event|engine|sessions'
folders tui <<END
term
state term
views state term
app views state term
inspect app views term
replay app views state term
chat replay app views state term
attach chat app term
END
check "views ask neither engine nor log" \
	"grep -nE '^#include \"(engine/core/engine.h|engine/core/actor.h|trace/)' tui/views/*.c"
check "only tui/term sees ncurses" "$(includes '-r $all' '(ncurses|curses|term)\.h|ncursesw/' 'tui/term/')"
check "only tui/term/prompt.c sees readline" "$(includes '-r $all' 'readline/' 'tui/term/prompt\.c')"
check "only trace and sessions see sqlite" "$(includes '-r base kernels engine serve load simulate lab tui cli' 'sqlite3\.h')"
check "only serve sees libmicrohttpd" "$(includes '-r $all' 'microhttpd\.h' 'serve/')"
check "only sessions/client sees libcurl" "$(includes '-r $all' 'curl/' 'sessions/client/')"
check "only base/foreign_json, engine/grammar, engine/text, sessions, serve and load see cJSON" "$(includes '-r base kernels event fold engine trace simulate lab tui cli' 'cjson/' '(engine/grammar/|engine/text/|base/foreign_json)')"
check "only kernels/cuda includes CUDA's headers or the kernels' own" \
	"grep -rnE '^#include [\"<](cuda|cuda_[a-z_]*|nvrtc|device_launch_parameters)\.h|^#include .*\.cuh?\"' $all | grep -vE '^kernels/cuda/'"
check "nothing of the program includes the CUDA shim but device.cuh" \
	"grep -rn '^#include .*cuda_shim' $all | grep -v '^kernels/cuda/device.cuh:'"
check "only main exits" \
	"grep -rnE '(^|[^_a-z])exit\(' $all --include='*.c' | grep -vE '^cli/main\.c|_exit\('"
check "no libm in the kernels" \
	"grep -nE '(^|[^_a-z0-9])(expf?|logf?|powf?|sinf?|cosf?|tanhf?|fmaxf?|fminf?)\(' -r kernels --include=*.c kernels/arith.h | grep -vE ':[0-9]+:[[:space:]]*(/?\*|//)'"
check "every path that a comment or a document names is there" \
	"grep -rnoE '(^|[^[:alnum:]_./\$}-])($(echo "$all" | tr ' ' '|')tests|tools|docs|demos)/[[:alnum:]_./-]*\.(c|h|def|cu|cuh|py|sh|md|txt)\b' \
		$all tests/*/ tools docs README.md Makefile --include='*.[ch]' --include='*.cu*' --include='*.py' --include='*.sh' --include='*.md' --include=Makefile |
		sed 's/[^[:alnum:]_./:-]//g' | awk -F: '!seen[\$3]++' | while IFS=: read -r file line path; do
			[ -e \"\$path\" ] || case \$path in */x.[ch] | */x.txt | *_x.[ch]) ;; *) echo \"\$file:\$line: \$path\" ;; esac; done"
# Columns whose values are codes, as a pattern: event/codes.def has the lists, event/events.def the columns.
lists=$(sed -n 's/^LIST(\([a-z_]*\),.*/\1/p' event/codes.def | tr '\n' '|')
coded=$(grep -hoE "I\([a-z_]+, \"(${lists}none)\"" event/events.def | sed 's/I(\([a-z_]*\),.*/\1/' | sort -u | tr '\n' '|')
check "no SQL has the number of a code: schema_sql() puts it in by name" \
	"grep -rnE '\"[^\"]*\b(${coded}none)( NOT)? *(=|<>|!=|<|>|IN \()+ *[0-9]' trace sessions --include='*.c'"
echo "1..$n"
exit $failed
