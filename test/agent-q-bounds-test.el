;;; agent-q-bounds-test.el --- More than Emacs should take  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A message with a thousand calls, arguments and texts without end, and logs
;; on a disk that is full: Emacs stays free, and says what it left out.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-audit)
(require 'agent-q-connection)
(require 'agent-q-test-registry)

;;;; Many calls

(defun agent-q-bounds-test--notes (count)
  "Return the script of a model that makes COUNT calls at once, then answers."
  (agent-q-test-script
   `((nil ,@(mapcar (lambda (number)
                      `("note" (text . ,(format "(list %d)" number))))
                    (number-sequence 1 count)))
     (nil "All are noted."))))

(defmacro agent-q-bounds-test--with-calls (count &rest body)
  "Run BODY in a chat whose model makes COUNT calls in its first message."
  (declare (indent 1) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "note" (lambda (arguments) (gethash "text" arguments))))
     (agent-q-test-with-model (agent-q-bounds-test--notes ,count)
       (agent-q-test-with-chat ,@body))))

(defun agent-q-bounds-test--seconds ()
  "Return the times of a thousand calls' events, without collections of garbage.
That is an alist from types of events to seconds, latest first."
  (let ((seconds nil))
    (cl-flet ((note (function event)
                    (let ((began (float-time))
                          (collected gc-elapsed))
                      (funcall function event)
                      (push (- (float-time) began (- gc-elapsed collected))
                            (alist-get (plist-get event :type) seconds)))))
      (agent-q-bounds-test--with-calls 1000
        (advice-add 'agent-q-events-dispatch :around #'note)
        (unwind-protect
            (agent-q-test-ask "note them all")
          (advice-remove 'agent-q-events-dispatch #'note))
        (should (agent-q-test-shows "All are noted."))
        (should (= 1000 (length (agent-q-test-calls))))))
    seconds))

(defun agent-q-bounds-test--grown (seconds)
  "Return how many times as long the last of the events took that SECONDS are of.
That is the quickest of a hundred: what else the machine does slows others down."
  (should (= 1000 (length seconds)))
  (/ (seq-min (seq-take seconds 100))
     (seq-min (seq-drop seconds 900))))

(ert-deftest agent-q-bounds-an-event-costs-the-same-after-a-thousand-calls ()
  "Emacs moves the two markers of each call; nothing else is done for each of them."
  (should (agent-q-test-once
           (let ((seconds (agent-q-bounds-test--seconds)))
             (cl-loop for type in '(:call-proposed :call-finished)
                      always (< (agent-q-bounds-test--grown (alist-get type seconds)) 4))))))

(ert-deftest agent-q-bounds-emacs-is-free-between-a-few-events ()
  "However many there are, and however long it takes to draw them."
  (agent-q-bounds-test--with-calls 300
    (let* ((most 0)
           (events 0)
           (busy 0)
           (slow (lambda (&rest _)
                   (setq events (1+ events))
                   ;; As on a slow machine.
                   (let ((end (+ (float-time) 0.001)))
                     (while (< (float-time) end)))))
           (taken (lambda (function)
                    (setq events 0)
                    (funcall function)
                    (setq most (max most events)
                          busy (1+ busy)))))
      (advice-add 'agent-q-events-dispatch :before slow)
      (advice-add 'agent-q-events--take :around taken)
      (unwind-protect
          (agent-q-test-ask "note them all")
        (advice-remove 'agent-q-events-dispatch slow)
        (advice-remove 'agent-q-events--take taken))
      (should (> busy 30))
      (should (< most 64)))))

(defun agent-q-bounds-test--taken (type)
  "Return how many batches of events of TYPE a run of the filter takes.
Each of them takes a millisecond."
  (let ((now 0.0) (batches 0))
    (cl-letf (((symbol-function 'float-time) (lambda (&optional _) now))
              ((symbol-function 'agent-q-core-drain)
               (lambda (&rest _)
                 (setq now (+ now 0.001) batches (1+ batches))
                 (list (list :type :state) (list :type type))))
              ((symbol-function 'agent-q-core-ready) #'ignore))
      (agent-q-events--take))
    batches))

(ert-deftest agent-q-bounds-many-calls-are-drawn-between-few-redisplays ()
  (should (= 1 (agent-q-bounds-test--taken :text)))
  (should (= 1 (agent-q-bounds-test--taken :reasoning)))
  (should (< 2 (agent-q-bounds-test--taken :call-finished) 10)))

(ert-deftest agent-q-bounds-the-calls-beyond-say-why-they-were-not-run ()
  (agent-q-bounds-test--with-calls 130
    (agent-q-test-ask "note them all")
    (should (agent-q-test-shows
             "The model made 130 tool calls at once; only the first 128 are run."))
    (let ((calls (agent-q-test-calls)))
      (should (equal (seq-uniq (mapcar #'agent-q-call-state (seq-take calls 128)))
                     '(succeeded)))
      (dolist (call (seq-drop calls 128))
        (should (eq (agent-q-call-state call) 'failed))
        (should (string-match-p "\\`Not run: this message has 130 tool calls"
                                (agent-q-call-content call)))))))

(ert-deftest agent-q-bounds-a-user-s-program-may-make-any-number-of-calls ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "note" (lambda (arguments) (gethash "text" arguments))))
    (let ((results (agent-q-execute-tool-calls-sync
                    (mapcar (lambda (number)
                              `(:name "note" :arguments (:text ,(format "(%d)" number))))
                            (number-sequence 1 300))
                    agent-q-test-patience)))
      (should (equal (mapcar #'agent-q-tool-result-content results)
                     (mapcar (lambda (number) (format "(%d)" number))
                             (number-sequence 1 300)))))))

(ert-deftest agent-q-bounds-the-header-names-a-few-of-the-calls-that-run ()
  (agent-q-test-with-chat
    (dotimes (number 100)
      (agent-q-test-event :call-started :call (- -1 number) :tool "read_file" :arguments "{}"))
    (agent-q-test-event :state :state :running)
    (should (string-match-p "Running read_file, read_file, read_file, read_file and 96 more"
                            (agent-q-chat-view-header-line)))
    (agent-q-call-events-tick)))

;;;; Long arguments and texts

(ert-deftest agent-q-bounds-arguments-without-end-are-refused ()
  (let ((agent-q-test-patience 60)
        (long (make-string 3000000 ?x)))
    (agent-q-test-with-model (agent-q-test-script
                              `((nil ("eval_form" (form . ,long)))
                                (("again") "Here I am.")))
      (agent-q-test-with-chat
        (agent-q-test-ask "go")
        (should (agent-q-test-shows "Stopped reading the reply: the arguments of its tool calls are longer than 2 MB, so no call was run."))
        (should (< (buffer-size) 2000))
        (agent-q-test-ask "again")
        (should (agent-q-test-shows "Here I am."))))))

(ert-deftest agent-q-bounds-a-long-call-is-drawn-by-its-head ()
  "What isn't shown is not looked at, so that it takes no time."
  (agent-q-test-with-chat
    (let ((key 0))
      (cl-flet ((seconds (length)
                         (let ((arguments (agent-q-json-encode
                                           `(:form ,(make-string length ?\u202e)
                                                   :list ,(make-vector length "a")))))
                           (agent-q-test-seconds
                            (lambda ()
                              (agent-q-test-event :approval :call (setq key (1+ key))
                                                  :tool "eval_form" :level "dangerous"
                                                  :reason "" :arguments arguments)
                              (agent-q-test-event :call-finished :call key :outcome :denied
                                                  :content "" :milliseconds 0))))))
        ;; Parsing is all that takes longer: spelled out, it would be a hundred times.
        (should (agent-q-test-once (< (seconds 120000) (* 8 (seconds 6000)))))))))

;;;; The audit log

(defun agent-q-bounds-test--emacs (directory form)
  "Return what an Emacs says that evaluates FORM and has its logs in DIRECTORY."
  (with-temp-buffer
    (let ((process-environment (cons (concat "AGENT_Q_TEST_LOGS=" directory)
                                     process-environment)))
      (call-process (expand-file-name invocation-name invocation-directory)
                    nil t nil "-Q" "--batch"
                    "-L" (expand-file-name "lisp" agent-q-test-root)
                    "--eval" (prin1-to-string
                              `(progn
                                 (require 'agent-q-module)
                                 (setq agent-q-log-file
                                       (expand-file-name "core.log" (getenv "AGENT_Q_TEST_LOGS")))
                                 ,form))))
    (buffer-string)))

(ert-deftest agent-q-bounds-with-no-room-for-the-logs-nothing-is-changed ()
  "Not in the terminal, either."
  (unless (file-exists-p "/dev/full")
    (ert-skip "This system has no /dev/full"))
  (let ((directory (make-temp-file (expand-file-name "full" agent-q-test-directory) t)))
    (dolist (name '("core.log" "audit.jsonl"))
      (make-symbolic-link "/dev/full" (expand-file-name name directory)))
    (let ((said (agent-q-bounds-test--emacs
                 directory
                 '(let ((ran 0))
                    (agent-q-register-tool
                     agent-q-registry
                     (agent-q-define-tool "change" "Change something." nil
                                          :safety-level :cautious
                                          :handler (lambda (_) (setq ran (1+ ran)) "changed")))
                    (dotimes (_ 3)
                      (let ((result (car (agent-q-execute-tool-calls-sync
                                          '((:name "change")) 20))))
                        (princ (format "<%s>\n" (agent-q-tool-result-error result)))))
                    (princ (format "<%d ran>" ran))))))
      (should (string-match-p
               (concat "\\(?:<The call was not run, because the audit log .*audit\\.jsonl "
                       "can't be written: No space left on device .*>\n\\(?:.*Warning.*\n\\)*\\)")
               said))
      (should (string-match-p "<0 ran>" said))
      (should-not (string-match-p "tracing" said))
      ;; Each of the two is told once.
      (dolist (told '("A line is missing in the audit log " "agent-q can't write its log "))
        (should (= 2 (length (split-string said (regexp-quote told)))))))))

;;;; Its view

(defmacro agent-q-bounds-test--with-audit-log (lines &rest body)
  "Run BODY with an audit log of LINES, a torn one among them."
  (declare (indent 1) (debug t))
  `(let ((agent-q-log-file
          (expand-file-name "core.log" (make-temp-file
                                        (expand-file-name "log" agent-q-test-directory) t))))
     (with-temp-file (agent-q-audit-file)
       (dotimes (number ,lines)
         (insert (agent-q-json-encode
                  `(:time "2026-11-22T20:00:00.000Z" :step "finished" :chat 1 :tool "eval_form"
                          :level "cautious" :arguments (:form ,(format "(%d %s)" number
                                                                       (make-string 100 ?x)))
                          :decision "not_needed" :decided_by "level" :outcome "succeeded"
                          :milliseconds 12))
                 "\n")
         (when (= number (- ,lines 10))
           (insert "{\"time\":\"2026-11-22T20:00:00.000Z\",\"st\n"))))
     (unwind-protect
         (save-window-excursion ,@body)
       (kill-buffer "*agent-q audit*"))))

(ert-deftest agent-q-bounds-a-long-audit-log-is-open-at-once ()
  (cl-flet ((seconds (lines)
                     (agent-q-bounds-test--with-audit-log lines
                       (agent-q-test-seconds #'agent-q-audit-log))))
    (should (agent-q-test-once (< (seconds 4000) (* 4 (seconds 300)))))))

(ert-deftest agent-q-bounds-older-steps-are-shown-on-demand ()
  (agent-q-bounds-test--with-audit-log 650
    (agent-q-audit-log)
    (cl-flet ((note () (overlay-get agent-q-audit--note 'after-string))
              (rows () (count-lines (point-min) (point-max))))
      (should (= 300 (rows)))
      (should (looking-at "[-0-9]+ [0-9:]+ +eval_form +automatic +succeeded +12 (649 x"))
      (should (equal (substring-no-properties (note)) "[300 of 651 steps; + shows more]"))
      (agent-q-test-press "+")
      (should (= 600 (rows)))
      (agent-q-test-press "+")
      (should (= 650 (rows)))
      (should-not (note))
      (goto-char (point-max))
      (forward-line -1)
      (should (looking-at ".*(0 x"))
      (agent-q-test-press "RET")
      (with-current-buffer "*agent-q audit step*"
        (should (agent-q-test-shows "form: (0 x"))))))

;;;; Many deadlines

(ert-deftest agent-q-bounds-a-thousand-deadlines-take-one-timer ()
  "Each call's function is called once, in order; an error in one, or an end, harms no other."
  (let* ((before (length timer-list))
         (agent-q-connection-call-pending (make-hash-table :test #'equal))
         (called nil)
         (calls (mapcar (lambda (number)
                          (let ((call (agent-q-connection-call-make :request number)))
                            (puthash number call agent-q-connection-call-pending)
                            call))
                        (number-sequence 1 1000))))
    (dolist (call calls)
      (let ((number (agent-q-connection-call-request call)))
        (agent-q-connection-call-start-clock
         call (/ number 10000.0)
         (lambda (it)
           (should (eq it call))
           (push number called)
           (when (= 500 number) (error "Bad"))))))
    (should (<= (length timer-list) (1+ before)))
    (agent-q-connection-call-stop-clock (nth 299 calls))
    (let ((inhibit-message t))
      (agent-q-test-until (= 999 (length called))))
    (should (equal (delq 300 (number-sequence 1 1000)) (reverse called)))
    (should (<= (length timer-list) (1+ before)))))

(provide 'agent-q-bounds-test)
;;; agent-q-bounds-test.el ends here

