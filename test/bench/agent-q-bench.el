;;; agent-q-bench.el --- What all measurements share  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Notes samples, reads clocks and memory, plays scripts on the scripted
;; model server, and lets bare processes insert what it sends, for the baselines.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'subr-x)

(defvar agent-q-session-number)
(defvar agent-q-log-file)
(defvar agent-q-provider)
(declare-function agent-q-chat-open "agent-q-chat")
(declare-function agent-q-chat-send "agent-q-chat")

(defconst agent-q-bench-scratch
  (file-name-as-directory (or (getenv "AGENT_Q_BENCH_SCRATCH")
                              temporary-file-directory))
  "The folder for the files of this run.")

(setq agent-q-log-file (expand-file-name "core.log" agent-q-bench-scratch))

;;;; Samples

(defvar agent-q-bench--samples nil
  "The samples of this process, (NAME . NUMBER), latest first.")

(defun agent-q-bench-sample (name number)
  "Note NUMBER as a sample of NAME."
  (push (cons name number) agent-q-bench--samples))

(defun agent-q-bench-end ()
  "Write the samples where the driver collects them, and end Emacs."
  (let ((samples agent-q-bench--samples))
    (with-temp-buffer
      (dolist (sample (nreverse samples))
        (insert (format "%s %.9f\n" (car sample) (cdr sample))))
      (write-region nil nil (expand-file-name "samples" agent-q-bench-scratch)
                    t 'silent)))
  (kill-emacs 0))

(defmacro agent-q-bench-guard (&rest body)
  "Run BODY; on an error tell the driver what it was, and end Emacs."
  (declare (indent 0) (debug t))
  `(condition-case err
       (progn ,@body)
     (error
      (write-region (format "%s\n" (error-message-string err)) nil
                    (expand-file-name "failure" agent-q-bench-scratch) t 'silent)
      (kill-emacs 1))))

(defmacro agent-q-bench-seconds (&rest body)
  "Run BODY and return the seconds that it took."
  (declare (indent 0) (debug t))
  `(let ((before (float-time)))
     ,@body
     (- (float-time) before)))

(defun agent-q-bench-await (condition)
  "Wait in this batch Emacs until the function CONDITION returns non-nil."
  (let ((deadline (+ (float-time) 120))
        value)
    (while (not (setq value (funcall condition)))
      (when (> (float-time) deadline)
        (error "Waited in vain for %S" condition))
      (accept-process-output nil 1))
    value))

;;;; Processor and memory

(defun agent-q-bench--proc (file regexp)
  "Return the number that REGEXP finds in FILE of this process, or nil.
Systems without /proc have no such file."
  (with-temp-buffer
    (when (ignore-errors
            (insert-file-contents-literally (concat "/proc/self/" file)))
      (goto-char (point-min))
      (and (re-search-forward regexp nil t)
           (string-to-number (match-string 1))))))

(defun agent-q-bench-cpu ()
  "Return the processor time of this Emacs, all threads, in seconds."
  (float-time (get-internal-run-time)))

(defun agent-q-bench-main-cpu ()
  "Return the processor time of Emacs's own thread in seconds, or nil."
  (let ((nanoseconds (agent-q-bench--proc "schedstat" "\\`\\([0-9]+\\)")))
    (and nanoseconds (/ nanoseconds 1e9))))

(defun agent-q-bench-memory ()
  "Return the memory of this Emacs as (PSS . RSS) in bytes, or nil.
PSS leaves out the part of shared pages that belongs to others."
  (garbage-collect)
  (let ((pss (agent-q-bench--proc "smaps_rollup" "^Pss: +\\([0-9]+\\)"))
        (rss (agent-q-bench--proc "smaps_rollup" "^Rss: +\\([0-9]+\\)")))
    (and pss rss (cons (* 1024.0 pss) (* 1024.0 rss)))))

(defun agent-q-bench-sample-memory (name before after)
  "Note what memory grew by from BEFORE to AFTER as samples of NAME."
  (when (and before after)
    (agent-q-bench-sample (concat name ".pss") (- (car after) (car before)))
    (agent-q-bench-sample (concat name ".rss") (- (cdr after) (cdr before)))))

;;;; The scripted model server

(defvar agent-q-bench-port nil
  "Where the scripted server listens.")

(defun agent-q-bench-serve (&rest turns)
  "Start the scripted server with TURNS, each a list of steps.
The last turn answers every later request too."
  (let* ((script (json-serialize
                  `((repeat_last . t)
                    (turns . ,(vconcat (mapcar (lambda (steps)
                                                 `((steps . ,(vconcat steps))))
                                               turns))))))
         (file (make-temp-file (expand-file-name "script" agent-q-bench-scratch)
                               nil ".json" script))
         (output "")
         (process (make-process
                   :name "scripted-server"
                   :command (list (getenv "AGENT_Q_BENCH_SERVER") file)
                   :connection-type 'pipe
                   :noquery t
                   :filter (lambda (_process text)
                             (setq output (concat output text))))))
    (while (not (string-match ":\\([0-9]+\\)\n" output))
      (unless (process-live-p process)
        (error "The scripted server did not start: %s" output))
      (accept-process-output process 1))
    (setq agent-q-bench-port (string-to-number (match-string 1 output)))))

(defun agent-q-bench-words (count)
  "Return COUNT small texts: words, and a line end after each twelfth."
  (cl-loop for number from 1 to count
           for word = (nth (% number 7) '("a" "symbol" "is" "bound" "in" "this" "package"))
           collect (concat word (if (zerop (% number 12)) "\n" " "))))

(defconst agent-q-bench--markdown
  "## What `parse-integer` does

It reads an **integer** in a *given radix* from a string, see [here](https://example.org/p).

- `:start` and `:end` bound what is read
  - both count characters, as `subseq` does
- `:junk-allowed` returns nil instead of an error

```lisp
(defun digits (text &key (start 0))
  \"Return the integer in TEXT.\"
  (parse-integer text :start start :junk-allowed t)) ; or nil
```

| Argument | Default | Says |
|---|:---:|---:|
| `radix` | 10 | the base |
| `start` | 0 | where to begin |

> Blanks on both sides are skipped, *earmuffs* like *print-base* are not emphasis.

"
  "An answer of all that models write.")

(defun agent-q-bench-markdown (count &optional size)
  "Return COUNT texts of SIZE characters of Markdown, small ones by default."
  (let ((size (or size 6)) (long (length agent-q-bench--markdown)))
    (cl-loop for number below count
             for from = (% (* number size) long)
             for piece = (substring agent-q-bench--markdown from (min long (+ from size)))
             collect (if (< (length piece) size)
                         (concat piece (substring agent-q-bench--markdown
                                                  0 (- size (length piece))))
                       piece))))

(defun agent-q-bench-tables (count)
  "Return COUNT tables of ten rows and five columns, in small texts."
  (let ((row "| `symbol-%d` | a function | **%d** | what it says of itself | [here](x%d) |\n")
        (texts nil))
    (dotimes (table count)
      (let ((text (concat "| Name | Kind | Arguments | Documentation | Link |\n"
                          "|---|:---:|---:|---|---|\n"
                          (mapconcat (lambda (line) (format row line (* table line) line))
                                     (number-sequence 1 10) "")
                          (format "\nThat was table %d.\n\n" table))))
        (setq texts (nconc (nreverse (seq-partition text 6)) texts))))
    (nreverse texts)))

(defun agent-q-bench-names (count)
  "Return texts of prose with COUNT names in it, no two the same."
  (mapcar (lambda (number)
            (format "`bench-%d` calls `(cl-user::bench-%d 3)`, and *then*%s" number number
                    (if (zerop (% number 5)) ".\n\n" ", ")))
          (number-sequence 1 count)))

(defun agent-q-bench-line (bytes)
  "Return a line of BYTES in 10,000 small texts."
  (let ((size (/ bytes 10000)))
    (append (make-list 9999 (concat (make-string (1- size) ?x) " ")) '("\n"))))

(defun agent-q-bench-text-steps (texts)
  "Return steps that send each of TEXTS as an event."
  (mapcar (lambda (text) `((text . ,text))) texts))

(defun agent-q-bench-bulk-steps (bytes)
  "Return steps that send BYTES of text in lines, 16 KiB an event."
  (let ((line (concat (make-string 79 ?x) "\n")))
    `(((text . ,(apply #'concat (make-list 204 line)))
       (repeat . ,(max 1 (/ bytes (* 204 80))))))))

;;;; Chats

(defvar agent-q-bench--ended nil
  "Function that is called when the turn that runs has ended.")

(defvar agent-q-bench--outcome :finished
  "How that turn has to end.")

(defun agent-q-bench--dispatched (event)
  "Notice that EVENT, the end of a turn, was applied."
  (when (and agent-q-bench--ended (eq (plist-get event :type) :turn-ended))
    (unless (eq (plist-get event :outcome) agent-q-bench--outcome)
      (error "The turn failed: %s" (plist-get event :message)))
    (let ((function agent-q-bench--ended))
      (setq agent-q-bench--ended nil)
      (agent-q-bench-guard (funcall function)))))

(defun agent-q-bench-chat (&optional base-url dialect)
  "Open a chat with the scripted server, show it and return its buffer.
BASE-URL is that of another one.  DIALECT is Chat Completions when left out."
  (require 'agent-q-chat)
  (setq agent-q-provider
        (list :name "scripted" :model "scripted" :key "none" :dialect (or dialect 'chat-completions)
              :base-url (or base-url (format "http://127.0.0.1:%d/v1" agent-q-bench-port))))
  (advice-add 'agent-q-events-dispatch :after #'agent-q-bench--dispatched)
  (let ((chat (agent-q-chat-open t)))
    (switch-to-buffer chat)
    (goto-char (point-max))
    chat))

(defun agent-q-bench-ask (chat ended &optional outcome line)
  "Send LINE, or some line, from CHAT; call ENDED as soon as the turn has ended.
OUTCOME is how it has to end when it isn't to be finished."
  (setq agent-q-bench--ended ended
        agent-q-bench--outcome (or outcome :finished))
  (with-current-buffer chat
    (goto-char (point-max))
    (insert (or line "Go on"))
    (agent-q-chat-send)))

(defun agent-q-bench-ask-and-wait (chat)
  "Send a line from CHAT in this batch Emacs, and wait for the end of the turn."
  (let ((over nil))
    (agent-q-bench-ask chat (lambda () (setq over t)))
    (agent-q-bench-await (lambda () over))))

;;;; Baselines

(defun agent-q-bench-bare-buffer ()
  "Show an empty buffer as a bare filter fills it; return it."
  (switch-to-buffer (generate-new-buffer "bare"))
  (setq-local bidi-paragraph-direction 'left-to-right
              bidi-inhibit-bpa t)
  (current-buffer))

(defun agent-q-bench--insert (process text)
  "Insert TEXT at the end of PROCESS's buffer, whose windows follow."
  (with-current-buffer (process-buffer process)
    (goto-char (point-max))
    (insert text)
    (set-window-point (get-buffer-window) (point))))

(defun agent-q-bench-bare-request (buffer ended &optional filter)
  "Have a bare process filter insert a turn of the server's into BUFFER.
Call ENDED when all of it is there.  FILTER is an other filter."
  (let ((process (make-network-process
                  :name "bare" :host "127.0.0.1" :service agent-q-bench-port
                  :buffer buffer :coding 'utf-8-unix :noquery t
                  :sentinel #'ignore
                  :filter
                  (lambda (process text)
                    (funcall (or filter #'agent-q-bench--insert) process text)
                    (with-current-buffer buffer
                      (when (save-excursion
                              (search-backward "[DONE]" (max (point-min)
                                                             (- (point-max) 64))
                                               t))
                        (delete-process process)
                        (agent-q-bench-guard (funcall ended))))))))
    (process-send-string
     process (concat "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                     "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}"))
    process))

(provide 'agent-q-bench)
;;; agent-q-bench.el ends here
