;;; report-bench.el --- The table of all figures  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reads the samples of a run and prints each figure beside its baseline, with
;; their ratio and the target.  The targets are for two processors with nothing else to do.

;;; Code:

(require 'agent-q-bench)

(defvar report-bench--samples (make-hash-table :test #'equal)
  "The samples by name.")

;; LABEL FIGURE BASELINE UNIT LIMIT, or a heading.  FIGURE and BASELINE are (STATISTIC NAME) or
;; the name of samples whose median is meant.  LIMIT is a number in UNIT, (ratio R), (within F),
;; which allows that part of the baseline more, (above N), N units more, or (more N).
(defconst report-bench--figures
  '("10,000 small events into a chat, terminal | a bare filter inserts the same stream"
    ("wall time" "chat.small.0.wall" "filter.small.0.wall" ms 400)
    ("processor time of Emacs, all threads" "chat.small.0.cpu" "filter.small.0.cpu" ms 200)
    ("gap of a 5 ms timer, p99 of all runs" (p99 "chat.small.0.gap") (p99 "filter.small.0.gap") ms 10)
    ("longest gap without collections" "chat.small.0.outside" "filter.small.0.outside" ms 15)
    ("most processor time between two ticks" (p99 "chat.small.0.busy") (p99 "filter.small.0.busy") ms 10)
    ("garbage collections" "chat.small.0.gcs" "filter.small.0.gcs" count (more 0))
    "the same with 1 MB in the buffer | without"
    ("wall time" "chat.small.1000000.wall" "chat.small.0.wall" ms (within 0.1))
    ("from the first text on, without the request of 1 MB" "chat.small.1000000.answer" "chat.small.0.answer" ms (within 0.1))
    ("processor time of Emacs, all threads" "chat.small.1000000.cpu" "chat.small.0.cpu" ms (within 0.1))
    ("longest gap without collections" "chat.small.1000000.outside" "chat.small.0.outside" ms 15)
    "10,000 events of Markdown into a chat, terminal | a bare filter inserts the same stream"
    ("wall time" "chat.markdown.0.wall" "filter.markdown.0.wall" ms 200)
    ("gap of a 5 ms timer without collections, p99" (p99 "chat.markdown.0.gap-outside") (p99 "filter.markdown.0.gap-outside") ms 8)
    ("most processor time between two ticks" (p99 "chat.markdown.0.busy") (p99 "filter.markdown.0.busy") ms 8)
    ("longest gap without collections" "chat.markdown.0.outside" "filter.markdown.0.outside" ms 15)
    "10,000 events of Markdown, markup hidden and names alive | with a Lisp, too, but without these looks"
    ("wall time" "looks.markdown.0.wall" "plain.markdown.0.wall" ms (ratio 1.2))
    ("processor time of Emacs, all threads" "looks.markdown.0.cpu" "plain.markdown.0.cpu" ms (ratio 1.2))
    ("gap of a 5 ms timer without collections, p99" (p99 "looks.markdown.0.gap-outside") (p99 "plain.markdown.0.gap-outside") ms 8)
    ("most processor time between two ticks" (p99 "looks.markdown.0.busy") (p99 "plain.markdown.0.busy") ms 8)
    "pages full of names that the image is asked about, terminal"
    ("most processor time for which a key would wait" "pages.names.0.longest" nil ms 5)
    "10,000 events of Markdown | gptel with markdown-mode, as in your packages"
    ("wall time" "chat.markdown.0.wall" "gptel.markdown.0.wall" ms (ratio 1))
    ("processor time of Emacs, all threads" "chat.markdown.0.cpu" "gptel.markdown.0.cpu" ms (ratio 1))
    ("gap of a 5 ms timer, p99 of all runs" (p99 "chat.markdown.0.gap") (p99 "gptel.markdown.0.gap") ms (ratio 1))
    ("longest gap" "chat.markdown.0.longest" "gptel.markdown.0.longest" ms (ratio 1))
    ("garbage collections" "chat.markdown.0.gcs" "gptel.markdown.0.gcs" count (more 0))
    "100 tables in small events, terminal | a bare filter inserts the same stream"
    ("wall time" "chat.tables.0.wall" "filter.tables.0.wall" ms (ratio 1))
    ("longest gap without collections" "chat.tables.0.outside" "filter.tables.0.outside" ms 50)
    "an answer of 1 MB of Markdown in 10,000 events, terminal | a bare filter inserts the same stream"
    ("wall time" "chat.megabyte.0.wall" "filter.megabyte.0.wall" ms (ratio 2))
    ("longest gap without collections" "chat.megabyte.0.outside" "filter.megabyte.0.outside" ms 50)
    "a file that a call writes in 10,000 pieces, shown as a diff, terminal | plain text in as many"
    ("gap of a 5 ms timer without collections, p99" (p99 "draft.small.0.gap-outside") (p99 "chat.small.0.gap-outside") ms 10)
    ("longest gap without collections" "draft.small.0.outside" "chat.small.0.outside" ms 15)
    "Markdown with 1 MB in the buffer | without"
    ("wall time" "chat.markdown.1000000.wall" "chat.markdown.0.wall" ms (within 0.1))
    ("from the first text on, without the request of 1 MB" "chat.markdown.1000000.answer" "chat.markdown.0.answer" ms (within 0.1))
    "the same with 100 folded calls above | without"
    ("wall time" "chat.markdown.100calls.wall" "chat.markdown.0.wall" ms (within 0.1))
    ("longest gap without collections" "chat.markdown.100calls.outside" "chat.markdown.0.outside" ms 15)
    "10,000 events of Markdown in other dialects | in Chat Completions"
    ("Messages, wall time" "messages.markdown.0.wall" "chat.markdown.0.wall" ms (ratio 1.2))
    ("Messages, processor time of Emacs, all threads" "messages.markdown.0.cpu" "chat.markdown.0.cpu" ms (ratio 1.2))
    ("Responses, wall time" "responses.markdown.0.wall" "chat.markdown.0.wall" ms (ratio 1.2))
    ("Responses, processor time of Emacs, all threads" "responses.markdown.0.cpu" "chat.markdown.0.cpu" ms (ratio 1.2))
    ("Gemini, wall time" "gemini.markdown.0.wall" "chat.markdown.0.wall" ms (ratio 1.2))
    ("Gemini, processor time of Emacs, all threads" "gemini.markdown.0.cpu" "chat.markdown.0.cpu" ms (ratio 1.2))
    ("Ollama, wall time" "ollama.markdown.0.wall" "chat.markdown.0.wall" ms (ratio 1.2))
    ("Ollama, processor time of Emacs, all threads" "ollama.markdown.0.cpu" "chat.markdown.0.cpu" ms (ratio 1.2))
    "a key typed at the prompt meanwhile, from when it was due to the screen | nothing comes"
    ("p99 of all runs" (p99 "chat.markdown.0.key") (p99 "rest.small.0.key") ms 15)
    "90 KB on one line in 10,000 events, terminal | a bare filter inserts the same stream"
    ("wall time" "chat.line.0.wall" "filter.line.0.wall" ms 300)
    "one event of 1 MiB, terminal | a bare filter inserts the same stream"
    ("wall time" "chat.large.0.wall" "filter.large.0.wall" ms 100)
    "1,000 tool calls in a message, terminal | an Emacs that does nothing"
    ("longest gap of a 5 ms timer" "chat.calls.0.longest" "rest.small.0.longest" ms 50)
    ("longest gap without collections" "chat.calls.0.outside" "rest.small.0.outside" ms 25)
    "from the server's write to the buffer | a bare filter on a socket"
    ("first text of a turn" "byte.chat.first" "byte.filter.first" ms 3)
    "sending with 2 MB of history | with 20 kB"
    ("agent-q-core-submit" "submit.long" "submit.short" ms 10)
    "the same with 10 MB"
    ("agent-q-core-submit" "submit.huge" "submit.short" ms 10)
    "from the command that cancels a turn to its end in the chat, while"
    ("it connects" "cancel.connecting" nil ms 50)
    ("nothing of the answer has come" "cancel.first-byte" nil ms 50)
    ("text comes" "cancel.text" nil ms 50)
    ("a call comes" "cancel.call" nil ms 50)
    ("it waits to send again" "cancel.backing-off" nil ms 50)
    ("the user is asked" "cancel.approval" nil ms 50)
    ("a tool works in Rust" "cancel.rust" nil ms 50)
    ("a tool works in Emacs" "cancel.emacs" nil ms 50)
    "first use | loading an empty library"
    ("(require 'agent-q-module)" "load.require" "load.empty" ms 10)
    ("loading the core" "load.core" "load.empty" ms 50)
    "wake-ups of an idle Emacs in 5 s, all threads | without the core"
    ("after a turn" "idle.chat" "idle.bare" count (more 0))
    ("the same, with 20 MCP servers that run" "idle.servers" "idle.bare" count (more 0))
    "memory, PSS | a bare filter's buffer"
    ("the loaded and started core" "memory.started.pss" nil MB 15)
    ("the same, RSS" "memory.started.rss" nil MB 15)
    ("a chat of 10 MB of text" "text.chat.pss" "text.filter.pss" MB 40)
    "memory of a chat's later 1,000 turns of Markdown, PSS | their text"
    ("besides what 200 turns take" "turns.chat.pss" "turns.text" MB (ratio 4))
    "a trivial tool through the whole pipeline | a hand-over to a worker thread and back"
    ("in Rust" "tools.pipeline" "tools.worker" us 20)
    "a tool of an MCP server through the whole pipeline | by a client of the same crate and nothing else"
    ("in Rust" "servers.call" "servers.bare" us (ratio 1.3))
    "from Emacs Lisp, with a handler in Emacs Lisp | a timer that is due at once"
    ("until the callback has the results" "tools.lisp" "tools.timer" us 150)
    "git status, by run_command under a rule | by call-process"
    ("until the callback has the result" "tools.status.run" "tools.status.call" ms (ratio 1.2))
    "stored chats | cat, or ripgrep over the same 1,000 files of 1 MB"
    ("a chat of 10 MB read by the core" "chats.resume.core" "chats.resume.cat" ms 300)
    ("handing over 10 KB to be saved" "chats.push" nil us 1000)
    ("a search without the index" "chats.search.plain" "chats.search.rg" ms (ratio 1.5))
    ("a search with it, nothing" "chats.search.none" nil ms 300)
    ("a search with it, a few" "chats.search.few" nil ms 300)
    ("a search with it, a word of all" "chats.search.all" nil ms 300)
    ("the list, 50 of 1,000" "chats.list" nil ms 300)
    "a chat of 10 MB resumed, terminal | its file"
    ("until the newest turn is on the screen" "resume.chat.0.first" nil ms 300)
    ("memory, PSS" "resume.memory.pss" "resume.file" MB (ratio 2))
    "the same | an Emacs that does nothing"
    ("longest gap of a 5 ms timer without collections" "resume.chat.0.outside" "rest.small.0.outside" ms (above 5))
    "tools and gram"
    ("schemas of 200 tools" "tools.schemas" nil ms 1)
    ("10,000 signatures parsed" "gram.signatures" nil ms 200)
    ("1 MB of nested brackets rejected" "gram.nested" nil ms 50)
    "a megabyte of a streamed answer, from bytes to what is shown"
    ("Chat Completions" "decode.read.chat" nil ms 5)
    ("Messages" "decode.read.messages" nil ms 5)
    ("Responses" "decode.read.responses" nil ms 5)
    ("Gemini" "decode.read.gemini" nil ms 5)
    ("Ollama" "decode.read.ollama" nil ms 5)
    "the same | serde_json skips its payloads"
    ("Chat Completions" "decode.read.chat" "decode.skip.chat" ms (ratio 2))
    ("Messages" "decode.read.messages" "decode.skip.messages" ms (ratio 2))
    ("Responses" "decode.read.responses" "decode.skip.responses" ms (ratio 2))
    ("Gemini" "decode.read.gemini" "decode.skip.gemini" ms (ratio 2))
    ("Ollama" "decode.read.ollama" "decode.skip.ollama" ms (ratio 2))
    "memory held after 256 MB of signs of life"
    ("Chat Completions" "decode.growth.chat" nil MB 1)
    ("Messages" "decode.growth.messages" nil MB 1)
    ("Responses" "decode.growth.responses" nil MB 1)
    ("Gemini" "decode.growth.gemini" nil MB 1)
    ("Ollama" "decode.growth.ollama" nil MB 1)
    "searching 50,000 files | ripgrep, or grep and find"
    ("grep_project, a match in one of 50 files" "files.grep.some" "files.grep.some.rg" ms (ratio 1.3))
    ("grep_project, a few matches" "files.grep.few" "files.grep.few.rg" ms (ratio 1.3))
    ("grep_project, a match in each line" "files.grep.all" "files.grep.all.rg" ms (ratio 1.3))
    ("grep_project, no match" "files.grep.none" "files.grep.none.rg" ms (ratio 1.3))
    ("search_files, a third by their names" "files.search.names" "files.search.names.rg" ms (ratio 1.3))
    ("search_files, by their paths" "files.search.paths" "files.search.paths.rg" ms (ratio 1.3))
    "how late a timer of 5 ms is meanwhile | in an Emacs that does nothing"
    ("grep_project, the latest without collections" "files.grep.outside" "files.rest.outside" ms (above 5))
    ("the same, most processor time between two ticks" "files.grep.busiest" "files.rest.busiest" ms 5)
    ("search_files, the latest without collections" "files.search.outside" "files.rest.outside" ms (above 5))
    ("the same, most processor time between two ticks" "files.search.busiest" "files.rest.busiest" ms 5)
    "100 lines of a file of 100 MB | sed -n"
    ("read_file at the start" "files.read.start" "files.read.start.sed" ms 20)
    ("read_file in the middle" "files.read.middle" "files.read.middle.sed" ms 20)
    ("read_file at the end" "files.read.end" "files.read.end.sed" ms 20)
    "a review of two files of 20,000 lines, terminal | Diff mode with diff -u"
    ("500 hunks shown" "review.changes" "diff-mode.changes" ms 300)
    ("all lines different" "review.other" nil ms 300)
    ("a hunk of 500 toggled, beside its next hunk" "review.toggle" "diff-mode.next" ms 10)
    ("the same, p99" (p99 "review.toggle") (p99 "diff-mode.next") ms 10))
  "The figures in the order in which they are printed.")

(defconst report-bench--image-figures
  '(("calls into the image through %s | bare %s-rex"
     ("trivial call, the form as it goes over the wire" "call" "wire" ms (ratio 1.25))
     ("trivial call, the user's form alone" "call" "bare" ms (ratio 1.25))
     ("describe, image layer | the client's own" "describe.call" "describe.bare" ms (ratio 1.3))
     ("describe, the whole pipeline" "describe.tool" "describe.bare" ms (ratio 1.3))
     ("describe, from a chat's prompt to its log" "describe.chat" "describe.bare" ms (ratio 1.5))
     ("first watched call, with the guards" "watch.first" "watch.bare" ms 100)
     ("trivial watched call" "watch.call" "watch.bare" ms (ratio 1.1))
     ("the same, 65,000 symbols more" "large.call" "large.bare" ms (ratio 1.1))
     ("completing @symbol: among 65,000 more, what Emacs does at once" "mention.ask" nil ms 50)
     ("the same, until the names are there" "mention.there" "large.call" ms 50)
     ("the same, one character more" "mention.narrow" nil ms 50)
     ("open a file to read, watched | not watched" "open.watched" "open.plain" us (ratio 1.5))
     ("look for a file, watched | not watched" "check.watched" "check.plain" us (ratio 1.5))
     ("other code, watched | not watched" "user.watched" "user.plain" us (ratio 1.05))
     ("first call, which ships our half" "ship" "ship.bare" ms 100)
     ("comparing 1,000 definitions with the files" "drift" nil ms 500)
     ("8 calls of 0.5 s side by side" "eight" nil ms 700)
     ("cancelling (loop)" "cancel" nil ms 100)
     ("cancelling a turn whose tool runs (loop), to its end in the chat" "cancel.turn" nil ms 50))
    ("edits through %s | what each names"
     ("a long definition edited and compiled, with what follows | compile_file of it alone"
      "edit.compiled" "edit.compile" ms (ratio 1.2))
     ("which of 300 tests reach what was changed, none" "edit.affected" nil ms 300))
    ("second Lisps through %s | by hand"
     ("ready, from its start | SBCL and %s" "second.ready" "second.hand" ms (ratio 1.5))
     ("verify_system, from your yes on | sbcl in a shell" "verify.tool" "verify.shell" ms (within 0.15))
     ("the same of a system of 10 functions" "verify-small.tool" "verify-small.shell" ms (above 700)))
    ("calls of other agents through %s | what each names"
     ("describe, by MCP through the bridge | in a chat" "describe.mcp" "describe.chat-alone" ms (ratio 1.5))
     ("more_tools by MCP | an echo over the same bridge" "mcp.rust" "mcp.ping" ms (above 0.5))
     ("most processor time of Emacs, 10 at once, without collections" "mcp.busiest" nil ms 15)
     ("the bridge, from its start to its first answer" "mcp.bridge" nil ms 30)
     ("memory of the bridge" "mcp.memory" nil MB 10)))
  "The same of calls through a client, by headings in which %s is the client.")

(defun report-bench--figures-of (client)
  "Return the figures of calls through CLIENT."
  (let ((name (lambda (figure) (and figure (format "%s.%s" client figure)))))
    (cl-loop for (heading . rows) in report-bench--image-figures
             collect (string-replace "%s" client heading)
             append (cl-loop for (label figure baseline . rest) in rows
                             collect `(,(string-replace "%s" client label) ,(funcall name figure) ,(funcall name baseline) ,@rest)))))

;;;; Numbers

(defun report-bench--quantile (name part)
  "Return the value below which PART of the samples of NAME are, or nil."
  (let ((samples (gethash name report-bench--samples)))
    (when samples
      (let ((sorted (sort (copy-sequence samples) #'<)))
        (nth (min (1- (length sorted)) (floor (* part (length sorted)))) sorted)))))

(defun report-bench--value (figure)
  "Return the value of FIGURE, or nil without samples."
  (pcase figure
    ('nil nil)
    (`(p99 ,name) (report-bench--quantile name 0.99))
    (name (report-bench--quantile name 0.5))))

(defun report-bench--in-unit (value unit)
  "Return VALUE, in seconds or bytes or a count, in UNIT."
  (* value (pcase unit ('ms 1e3) ('us 1e6) ('MB 1e-6) (_ 1))))

(defun report-bench--text (value unit)
  "Return VALUE in UNIT as a short text."
  (let ((number (and value (report-bench--in-unit value unit))))
    (cond ((null number) "")
          ((eq unit 'count) (format "%d" number))
          (t (format (cond ((>= number 100) "%.0f %s")
                           ((>= number 10) "%.1f %s")
                           (t "%.2f %s"))
                     number unit)))))

(defun report-bench--limit (limit unit baseline)
  "Return LIMIT as (TEXT . HIGHEST) for values in UNIT beside BASELINE.
HIGHEST is nil where LIMIT needs a baseline and there is none."
  (pcase limit
    (`(ratio ,ratio) (cons (format "≤ %s ×" ratio) (and baseline (* ratio baseline))))
    (`(within ,part) (cons (format "≤ + %d %%" (* 100 part)) (and baseline (* (+ 1 part) baseline))))
    (`(above ,number) (cons (format "≤ %s %s above" number unit)
                            (and baseline (+ baseline (/ number (report-bench--in-unit 1.0 unit))))))
    (`(more ,count) (cons (if (zerop count) "no more" (format "≤ %d more" count))
                          (and baseline (+ baseline count))))
    (_ (cons (format "≤ %s %s" limit unit) (/ limit (report-bench--in-unit 1.0 unit))))))

;;;; The table

(defun report-bench--row (&rest cells)
  "Print CELLS as a row."
  (princ (string-trim-right
          (apply #'format "  %-50s %11s %11s %8s  %-10s %s" cells)))
  (terpri))

(defun report-bench--judge (figure baseline unit limit)
  "Return `ok', `missed' or nil of FIGURE, nil where something wasn't measured.
BASELINE, UNIT and LIMIT are as in the list of figures."
  (let ((value (report-bench--value figure))
        (highest (cdr (report-bench--limit limit unit (report-bench--value baseline)))))
    (and value highest (if (> value highest) 'missed 'ok))))

(defun report-bench--figure (label figure baseline unit limit)
  "Print a row about FIGURE, called LABEL.
BASELINE, UNIT and LIMIT are as in the list of figures."
  (let ((value (report-bench--value figure))
        (beside (report-bench--value baseline)))
    (report-bench--row label
                       (report-bench--text value unit)
                       (report-bench--text beside unit)
                       (if (and value beside (> beside 0) (not (eq unit 'count)))
                           (format "%.2f ×" (/ value beside))
                         "")
                       (car (report-bench--limit limit unit beside))
                       (or (report-bench--judge figure baseline unit limit) "not measured"))))

(defun report-bench--heading (text)
  "Print TEXT as a heading."
  (let ((parts (split-string text " | ")))
    (terpri)
    (princ (car parts))
    (when (cdr parts)
      (princ (format "\n  beside: %s" (cadr parts))))
    (terpri)))

(defun report-bench--read ()
  "Read the samples."
  (with-temp-buffer
    (insert-file-contents (expand-file-name "samples" agent-q-bench-scratch))
    (while (re-search-forward "^\\(\\S-+\\) \\(\\S-+\\)$" nil t)
      (push (string-to-number (match-string 2))
            (gethash (match-string 1) report-bench--samples)))))

(defun report-bench-main ()
  "Print the table; fail when a target is missed."
  (report-bench--read)
  (princ (format "Emacs %s, %s processors, load %s. Medians; times on a busy machine say little.\n"
                 emacs-version
                 (string-trim (shell-command-to-string "getconf _NPROCESSORS_ONLN"))
                 (mapconcat (lambda (load) (format "%.1f" (/ load 100.0)))
                            (load-average) " ")))
  (report-bench--row "" "agent-q" "baseline" "ratio" "target" "")
  (let ((figures (append report-bench--figures
                         (report-bench--figures-of "sly") (report-bench--figures-of "slime")))
        (judged nil))
    (while figures
      (let* ((heading (pop figures))
             (rows (cl-loop while (consp (car figures)) collect (pop figures)))
             (here (mapcar (lambda (row) (apply #'report-bench--judge (cdr row))) rows)))
        ;; Where nothing was measured, it wasn't wanted.
        (when (remq nil here)
          (report-bench--heading heading)
          (dolist (row rows) (apply #'report-bench--figure row))
          (setq judged (append here judged)))))
    (let ((missed (cl-count 'missed judged)))
      (princ (format "\n%d figures, %d targets missed\n" (length (remq nil judged)) missed))
      (kill-emacs (if (zerop missed) 0 1)))))

(provide 'report-bench)
;;; report-bench.el ends here
