;;; stream-bench.el --- Streams into a terminal Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One measured stream in a fresh Emacs in a terminal, through a chat or a bare
;; process filter.  AGENT_Q_BENCH is "WAY STREAM PRELOAD": WAY is chat, a dialect in which a chat
;; hears it, looks (a chat with a Lisp, in which markup is hidden and names are alive), plain (the same
;; without these), draft, gptel, filter or rest, STREAM small, markdown, tables, megabyte (of
;; Markdown), line, large or calls, PRELOAD the bytes in the buffer beforehand, or 100calls for
;; that many folded calls.  A fourth word, busy, asks for the processor time between runs of the timer, and for nothing else: that
;; number does not depend on what else the machine does.  With the word keys somebody types meanwhile.
;; "resume chat 0" is no stream: the newest turns of a stored chat come.  Nor is "pages names 0", which
;; goes through an answer full of names page by page.

;;; Code:

(require 'agent-q-bench)

;; Measured where the user has it.
(defvar gptel-backend)
(defvar gptel-model)
(defvar gptel-post-response-functions)
(declare-function gptel-make-openai "ext:gptel-openai")
(declare-function gptel-mode "ext:gptel")
(declare-function gptel-send "ext:gptel")
(declare-function markdown-mode "ext:markdown-mode")
(defvar agent-q-chat-history-directory)
(defvar agent-q-code-highlight-limit)
(defvar agent-q-markdown-hide-markup)
(defvar agent-q-names-look-up)
(defvar agent-q-review-edits)
(defvar agent-q-chat-history-turns)
(declare-function agent-q-chats-open "agent-q-chats")
(declare-function agent-q-ide-find "lisp-ide")
(declare-function image-bench-connect "image-bench")
(declare-function image-bench-define-names "image-bench")

(defconst stream-bench--period 0.005
  "The period of the timer whose gaps are measured.")

(defvar stream-bench--way nil "How the stream gets into the buffer.")
(defvar stream-bench--name nil "How the samples' names begin.")
(defvar stream-bench--steps nil "The steps of the measured turn.")
(defvar stream-bench--text nil "The text of the measured turn.")

(defconst stream-bench--names 2000
  "How many names there are in an answer that is full of them.")

;;;; Gaps of a timer

(defvar stream-bench--ticks (make-vector 20000 0.0)
  "When the timer ran, and what garbage collection had taken until then.")
(defvar stream-bench--count 0 "How many entries of the ticks are used.")
(defvar stream-bench--timer nil "The timer.")
(defvar stream-bench--busy nil "Processor times when the timer ran, or nil; latest first.")
(defvar stream-bench--start nil "The counters when the stream began.")

;;;; Keys of somebody who types

(defconst stream-bench--key-period 0.01
  "The seconds between two keys.")

(defvar stream-bench--typing nil "Whether keys come: nil, `wanted' or `yes'.")
(defvar stream-bench--due nil "When the keys were due that are not on the screen yet.")

(defvar stream-bench--answering nil "When the first text of the answer came.")

(defun stream-bench--type (start number)
  "Press the key with NUMBER of those that come from START on, and the next ones."
  (let ((due (+ start (* number stream-bench--key-period))))
    (run-at-time (seconds-to-time due) nil
                 (lambda ()
                   (when (eq stream-bench--typing 'yes)
                     ;; The timer may be late; whoever typed wasn't.
                     (setq stream-bench--due (append stream-bench--due (list due))
                           unread-command-events (append unread-command-events (list ?a)))
                     (stream-bench--type start (1+ number)))))))

(defun stream-bench--typed ()
  "Note how long the key took to the screen."
  (when (and stream-bench--due (eq this-command 'self-insert-command))
    (redisplay t)
    (agent-q-bench-sample (concat stream-bench--name ".key")
                          (- (float-time) (pop stream-bench--due)))))

(defun stream-bench--start-typing ()
  "Begin to type in this buffer, if that is wanted."
  (when stream-bench--typing
    (setq stream-bench--typing 'yes)
    (add-hook 'post-command-hook #'stream-bench--typed)
    (stream-bench--type (float-time) 1)))

(defun stream-bench--tick ()
  "Note that the timer ran."
  (when (< stream-bench--count (- (length stream-bench--ticks) 1))
    (aset stream-bench--ticks stream-bench--count (float-time))
    (aset stream-bench--ticks (1+ stream-bench--count) gc-elapsed)
    (cl-incf stream-bench--count 2))
  (when stream-bench--busy
    (push (agent-q-bench-main-cpu) stream-bench--busy)))

(defun stream-bench--begin ()
  "Start to measure."
  (garbage-collect)
  (setq stream-bench--count 0
        stream-bench--busy (and stream-bench--busy (list (agent-q-bench-main-cpu))))
  (stream-bench--tick)
  (setq stream-bench--timer (run-at-time stream-bench--period stream-bench--period
                                         #'stream-bench--tick)
        stream-bench--start (list (float-time) (agent-q-bench-cpu) gcs-done))
  (stream-bench--start-typing))

(defun stream-bench--end ()
  "Stop to measure, once the text is on the screen, and note the samples."
  (redisplay)
  (stream-bench--tick)
  (let ((now (list (float-time) (agent-q-bench-cpu) gcs-done)))
    (cancel-timer stream-bench--timer)
    (cond (stream-bench--typing)
          (stream-bench--busy
           (stream-bench--note "busy" (cl-loop for (after before) on stream-bench--busy
                                               while before maximize (- after before))))
          (t (stream-bench--note-all now))))
  (agent-q-bench-end))

(defun stream-bench--note-all (now)
  "Note the samples of a stream that ended with the counters NOW."
  (cl-loop for what in '("wall" "cpu" "gcs")
           for before in stream-bench--start
           for after in now
           do (stream-bench--note what (- after before)))
  (when stream-bench--answering
    (stream-bench--note "answer" (- (car now) stream-bench--answering)))
  (stream-bench--note-gaps))

(defun stream-bench--note-gaps ()
  "Note the time between runs of the timer, with and without collections."
  (let ((longest 0.0) (outside 0.0))
    (cl-loop for index from 2 below stream-bench--count by 2
             for gap = (- (aref stream-bench--ticks index)
                          (aref stream-bench--ticks (- index 2)))
             for collecting = (- (aref stream-bench--ticks (1+ index))
                                 (aref stream-bench--ticks (1- index)))
             do (setq longest (max longest gap)
                      outside (max outside (- gap collecting)))
             (stream-bench--note "gap" gap)
             (stream-bench--note "gap-outside" (- gap collecting)))
    (stream-bench--note "longest" longest)
    (stream-bench--note "outside" outside)))

(defun stream-bench--await-text (event)
  "Note when EVENT is the first text."
  (when (eq (plist-get event :type) :text)
    (setq stream-bench--answering (float-time))
    (advice-remove 'agent-q-events-dispatch #'stream-bench--await-text)))

(defun stream-bench--note (what number)
  "Note NUMBER as a sample of WHAT."
  (agent-q-bench-sample (concat stream-bench--name "." what) number))

;;;; The stream

(defmacro stream-bench--later (&rest body)
  "Run BODY when Emacs has come to rest."
  (declare (indent 0) (debug t))
  `(run-at-time 0.2 nil (lambda () (agent-q-bench-guard ,@body))))

(defun stream-bench--run ()
  "Prepare the buffer as AGENT_Q_BENCH says, then measure."
  (pcase-let ((`(,way ,stream ,preload . ,more) (split-string (getenv "AGENT_Q_BENCH"))))
    (let ((words (pcase stream
                   ("markdown" (agent-q-bench-markdown 10000))
                   ("megabyte" (agent-q-bench-markdown 10000 100))
                   ("tables" (agent-q-bench-tables 100))
                   ("line" (agent-q-bench-line 90000))
                   ("names" (agent-q-bench-names stream-bench--names))
                   (_ (agent-q-bench-words 10000)))))
      (setq stream-bench--way way
            stream-bench--busy (and (equal more '("busy")) (agent-q-bench-main-cpu) (list 0))
            stream-bench--typing (and (equal more '("keys")) 'wanted)
            stream-bench--name (format "%s.%s.%s" way stream preload))
      (pcase stream
        ((or "small" "markdown" "tables" "megabyte" "line" "names")
         (setq stream-bench--steps (agent-q-bench-text-steps words)
               stream-bench--text (apply #'concat words)))
        ("large" (setq stream-bench--steps '(((big_text . 1048576)))
                       stream-bench--text (make-string 1048576 ?x)))
        ("calls" (setq stream-bench--steps (stream-bench--calls 1000)
                       stream-bench--text "")))
      (pcase way
        ("chat" (stream-bench--chat (string-to-number preload) (string-suffix-p "calls" preload)))
        ((or "messages" "responses" "gemini" "ollama")
         (stream-bench--chat (string-to-number preload) nil (intern way)))
        ((or "looks" "plain")
         (stream-bench--connect (equal way "looks"))
         (stream-bench--turns (list (agent-q-bench-text-steps
                                     (agent-q-bench-markdown 1 600)))))
        ("pages" (stream-bench--pages))
        ("draft" (stream-bench--draft))
        ("gptel" (stream-bench--gptel))
        ("resume" (stream-bench--resume))
        (_ (stream-bench--bare (string-to-number preload)))))))

(defun stream-bench--calls (count)
  "Return the step of a message with COUNT calls, no two the same."
  `(((tool_calls . ,(vconcat
                     (mapcar (lambda (number)
                               `((name . "search_in_buffer")
                                 (arguments . ((buffer . "*scratch*")
                                               (pattern . ,(format "x%d" number))))))
                             (number-sequence 1 count)))))))

(defun stream-bench--chat (preload calls &optional dialect)
  "Measure the stream through a chat with PRELOAD bytes, or with so many CALLS.
It comes in DIALECT."
  ;; The first turn opens the connection, and may fill the buffer.
  (stream-bench--turns (if calls
                           (list (stream-bench--calls preload) '(((text . "All of them are done."))))
                         (list (agent-q-bench-bulk-steps preload)))
                       dialect))

(defun stream-bench--turns (turns &optional dialect)
  "Measure the stream through a chat in DIALECT, after TURNS, lists of steps."
  (apply #'agent-q-bench-serve
         (append turns (list stream-bench--steps '(((text . "Done."))))))
  (let ((chat (agent-q-bench-chat nil dialect)))
    (agent-q-bench-ask
     chat
     (lambda ()
       (stream-bench--later
        (stream-bench--warm-up)
        (stream-bench--begin)
        (advice-add 'agent-q-events-dispatch :before #'stream-bench--await-text)
        (agent-q-bench-ask chat #'stream-bench--end))))))

(defun stream-bench--draft ()
  "Measure the stream as the text of a file, which is shown as a diff meanwhile."
  (agent-q-bench-serve
   (agent-q-bench-bulk-steps 0)
   `(((tool_calls . [((name . "write_file")
                      (arguments . ((path . "drafted.txt") (content . ,stream-bench--text))))])
      (fragments . 10000)))
   '(((text . "Done."))))
  (require 'agent-q)
  (setq agent-q-review-edits t)
  (let ((chat (agent-q-bench-chat)))
    (agent-q-bench-ask
     chat
     (lambda ()
       (stream-bench--later
        (stream-bench--begin)
        (advice-add 'agent-q-events-dispatch :after
                    (lambda (event)
                      (when (eq (plist-get event :type) :approval)
                        (agent-q-bench-guard (stream-bench--end)))))
        (agent-q-bench-ask chat #'ignore))))))

(defconst stream-bench--most-pages 15
  "How many pages of such an answer are looked at.")

(defun stream-bench--connect (looks)
  "Start a Lisp for the chat; LOOKS says whether it has all its looks."
  (require 'lisp-ide)
  (require 'image-bench)
  (require 'agent-q-chat)
  (setq agent-q-markdown-hide-markup looks
        agent-q-names-look-up looks
        agent-q-code-highlight-limit (and looks agent-q-code-highlight-limit))
  (image-bench-connect (seq-find #'agent-q-ide-find '(sly slime)))
  ;; The REPL shows itself a little later.
  (agent-q-bench-await (lambda () (string-match-p "repl" (buffer-name (window-buffer)))))
  (delete-other-windows))

(defun stream-bench--warm-up ()
  "Let the image, where there is one, get our half, which takes long but once."
  (when (featurep 'image-bench)
    (sit-for 2)))

(defun stream-bench--pages ()
  "Measure what is done about names, which the image knows half of, page by page."
  (stream-bench--connect t)
  (image-bench-define-names stream-bench--names)
  (agent-q-bench-serve stream-bench--steps)
  (let ((longest 0.0))
    (advice-add 'agent-q-names--mark-all :around
                (lambda (function &rest arguments)
                  (let ((start (agent-q-bench-main-cpu)) (collecting gc-elapsed))
                    (apply function arguments)
                    (setq longest (max longest (- (agent-q-bench-main-cpu) start
                                                  (- gc-elapsed collecting)))))))
    (let ((chat (agent-q-bench-chat)))
      (agent-q-bench-ask
       chat
       (lambda ()
         (stream-bench--later
           (with-current-buffer chat
             (stream-bench--warm-up)
             (setq longest 0.0)
             (goto-char (point-min))
             (dotimes (_ stream-bench--most-pages)
               (redisplay t)
               ;; Until they were looked up, and their answer is there.
               (sit-for 0.6)
               (scroll-up))
             (unless (text-property-not-all (point-min) (point-max) 'agent-q-live nil)
               (error "No name is alive")))
           (stream-bench--note "longest" longest)
           (agent-q-bench-end)))))))

(defun stream-bench--resume ()
  "Measure until the newest turn of a stored chat is shown, and until all are."
  (agent-q-bench-serve '(((text . "Yes"))))
  (agent-q-bench-chat)
  (require 'agent-q-chats)
  (setq agent-q-chat-history-directory (getenv "AGENT_Q_BENCH_CHATS"))
  (let ((shown 0))
    (advice-add 'agent-q-events-dispatch :after
                (lambda (event)
                  (when (eq (plist-get event :type) :past-turn)
                    (cl-incf shown)
                    (when (= shown 1)
                      (redisplay)
                      (stream-bench--note "first" (- (float-time) (car stream-bench--start))))
                    (when (= shown agent-q-chat-history-turns)
                      (agent-q-bench-guard (stream-bench--end)))))))
  (stream-bench--later
   (stream-bench--begin)
   (switch-to-buffer (agent-q-chats-open "chat-1" nil nil))))

(defun stream-bench--gptel ()
  "Measure the stream through gptel with `markdown-mode', as both are installed."
  (require 'gptel)
  (require 'gptel-openai)
  (agent-q-bench-serve (agent-q-bench-bulk-steps 0) stream-bench--steps '(((text . "Done."))))
  (setq gptel-model 'scripted
        gptel-backend (gptel-make-openai "scripted"
                        :host (format "127.0.0.1:%d" agent-q-bench-port) :protocol "http"
                        :endpoint "/v1/chat/completions" :stream t :key "none"
                        :models '(scripted)))
  (switch-to-buffer "gptel")
  (markdown-mode)
  (gptel-mode 1)
  (stream-bench--gptel-ask
   (lambda ()
     (stream-bench--later
      (stream-bench--begin)
      (stream-bench--gptel-ask #'stream-bench--end)))))

(defun stream-bench--gptel-ask (ended)
  "Send a line to gptel from this buffer; call ENDED when the answer is complete."
  (setq gptel-post-response-functions
        (list (lambda (&rest _) (agent-q-bench-guard (funcall ended)))))
  (goto-char (point-max))
  (insert "Go on")
  (gptel-send))

(defun stream-bench--bare (preload)
  "Measure the stream through a bare filter, with PRELOAD bytes in the buffer."
  (let ((buffer (agent-q-bench-bare-buffer)))
    (when (> preload 0)
      (dotimes (_ (/ preload 80))
        (insert (make-string 79 ?x) "\n")))
    (when (equal stream-bench--way "filter")
      (agent-q-bench-serve stream-bench--steps))
    (stream-bench--later
     (stream-bench--begin)
     (pcase stream-bench--way
       ("filter" (agent-q-bench-bare-request buffer #'stream-bench--end))
       ("rest" (run-at-time (if stream-bench--typing 1 0.15) nil #'stream-bench--end))))))

(defun stream-bench-main ()
  "Start as soon as Emacs reads commands."
  (stream-bench--later (stream-bench--run)))

(provide 'stream-bench)
;;; stream-bench.el ends here
