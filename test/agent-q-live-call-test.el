;;; agent-q-live-call-test.el --- Looking at calls that run  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a form prints is in the chat before it has ended, and a key says where it is.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(agent-q-test-image-on-each what-a-form-prints-is-shown-while-it-runs ()
  "Its last line beside it and in the header, its end when it is unfolded."
  (agent-q-test-with-chat
    (setq agent-q-session-connection connection)
    (let ((agent-q-eval-timeout 60)
          (chat (current-buffer)))
      (agent-q-test-send
       "/eval_form (progn (defvar cl-user::*aq-go* nil) (format t \"first~%second line~%\") (loop until cl-user::*aq-go* do (sleep 0.02)) (format t \"last~%\") 7)")
      (agent-q-test-until (agent-q-test-shows ": second line\n"))
      (agent-q-test-until (string-match-p "Running eval_form.*: second line" (agent-q-chat-view-header-line)))
      (agent-q-test-find "▸ eval_form")
      (agent-q-render-toggle)
      (should (agent-q-test-shows "output so far:\nfirst\nsecond line\n"))
      ;; Where it is, by a key on it; it goes on all the same.
      (agent-q-test-find "▾ eval_form")
      (save-window-excursion
        (agent-q-test-press "b")
        (agent-q-test-until
         (when-let ((buffer (get-buffer "*agent-q backtrace*")))
           (or (with-current-buffer buffer (agent-q-test-shows "SLEEP"))
               ;; It was between two sleeps.
               (ignore (kill-buffer buffer)
                       (switch-to-buffer chat)
                       (agent-q-test-press "b")))))
        (should (equal (buffer-name (window-buffer)) "*agent-q backtrace*"))
        (with-current-buffer "*agent-q backtrace*"
          (should-not (agent-q-test-shows "AGENT-Q-IMAGE"))))
      (kill-buffer "*agent-q backtrace*")
      (agent-q-test-image-directly connection "(setf cl-user::*aq-go* t)")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-match-p "▾ eval_form .*⇒ 7 " (agent-q-test-log)))
      (should-not (agent-q-test-shows "output so far")))))

(defun agent-q-live-call-test--begun (line)
  "Ask the console LINE; return what was the case when its calls went to the image.
That is a list for each: whether the log had LINE, and the name of the turn."
  (let* ((chat (current-buffer)) (seen nil)
         (see (lambda (call)
                (when (eq chat (agent-q-connection-call-owner call))
                  (with-current-buffer chat
                    (push (list (and (agent-q-test-shows line) t) agent-q-session-turn)
                          seen))))))
    (add-hook 'agent-q-connection-call-begun-functions see)
    (unwind-protect
        (agent-q-test-ask line)
      (remove-hook 'agent-q-connection-call-begun-functions see))
    seen))

(agent-q-test-image-on-each the-image-works-while-its-call-is-drawn ()
  "It is asked before the user's line is in the log, but for the turn of that."
  (agent-q-test-with-chat
    (setq agent-q-session-connection connection)
    (agent-q-test-ask "/describe_symbol aq-nothing")
    (let ((turn agent-q-session-turn)
          (begun (agent-q-live-call-test--begun "/describe_symbol cadr")))
      (should-not (equal turn agent-q-session-turn))
      (should (equal begun `((nil ,agent-q-session-turn))))
      (should (string-match-p "> /describe_symbol cadr\n\n▸ describe_symbol cadr ✓"
                              (agent-q-test-log))))))

(defun agent-q-live-call-test--turn (connection &rest steps)
  "Let a model do STEPS, each an argument list for a step, in a chat about CONNECTION.
A function is called at each look at the chat until it returns non-nil.  Return
the texts of the messages of the last request."
  (let ((meanwhile (and (functionp (car steps)) (pop steps))))
    (agent-q-test-with-model
        (agent-q-json-serialize
         `((turns . ,(vconcat (mapcar (lambda (step) `((steps . ,(vconcat step)))) steps)))))
      (agent-q-test-with-chat
        (agent-q-chat-set-connection connection)
        ;; The image gets what it needs before the clock of the script runs.
        (agent-q-test-ask "/eval_form 1")
        (agent-q-test-image-value connection "call-output" :call 0)
        (agent-q-test-send "go")
        (agent-q-test-until
         (progn
           (when (agent-q-call-waiting) (agent-q-test-answer "y"))
           (when (and meanwhile (funcall meanwhile)) (setq meanwhile nil))
           (agent-q-test-idle-p)))
        (should-not meanwhile)
        (seq-filter #'stringp
                    (mapcar (lambda (message) (gethash "content" message))
                            (agent-q-test-last-messages)))))))

(defun agent-q-live-call-test--evaluation (form &rest more)
  "Return a step in which FORM is evaluated, with MORE arguments."
  `((tool_calls . [((name . "eval_form") (arguments . ((form . ,form) ,@more)))])))

(defconst agent-q-live-call-test--waiting
  "(progn (defvar cl-user::*aq-free* nil) (format t \"begun~%\") (loop until cl-user::*aq-free* do (sleep 0.02)) :gone)"
  "A form that ends when it is told to.")

(agent-q-test-image-on-each a-call-runs-in-the-background ()
  "It runs while the model goes on, is in the log and the header, and its result comes under a later one."
  (unwind-protect
      (let* ((unseen (list (lambda () (string-match-p "Writing (1 call running)"
                                                      (agent-q-chat-view-header-line)))
                           (lambda () (agent-q-test-shows ": begun\n"))
                           (lambda () (string-match-p "eval_form .* running" (agent-q-test-log)))))
             (shown (lambda () (null (setq unseen (seq-remove #'funcall unseen)))))
             (contents
              (agent-q-live-call-test--turn
               connection shown
               (list (agent-q-live-call-test--evaluation
                      agent-q-live-call-test--waiting '(background . t)))
               (list '((text . "Meanwhile")) '((pause_ms . 4000))
                     (agent-q-live-call-test--evaluation "(setf cl-user::*aq-free* t)"))
               (list (agent-q-live-call-test--evaluation "(progn (sleep 1) (+ 20 22))"))
               '(((text . "Done."))))))
        (should (string-match-p "\\`pending: eval_form (call_id [0-9]+) is running" (nth 2 contents)))
        (let ((all (string-join contents "\n")))
          (should (string-match-p "=> 42" all))
          (should (string-match-p "eval_form (call_id [0-9]+) has ended:\n<data-" all))
          (should (equal 2 (length (split-string all "=> :GONE"))))))
    (agent-q-test-image-directly connection "(makunbound 'cl-user::*aq-free*)")))

(agent-q-test-image-on-each an-image-that-dies-under-a-call-in-the-background-is-told ()
  "The call ends with the connection; one that is still running is stopped with the turn."
  (let ((other (agent-q-test-image-another (agent-q-connection-client connection))))
    (unwind-protect
        (let* ((died nil)
               (contents
                (agent-q-live-call-test--turn
                 other
                 (lambda ()
                   (when (and (not died) (agent-q-test-shows ": begun\n"))
                     (setq died t)
                     (signal-process (agent-q-test-image-process other) 'SIGKILL)))
                 (list (agent-q-live-call-test--evaluation
                        agent-q-live-call-test--waiting '(background . t)))
                 (list '((text . "Meanwhile")) '((pause_ms . 5000))
                       '((tool_calls . [((name . "grep_project") (arguments . ((pattern . "aq"))))])))
                 '(((text . "Done."))))))
          (should (string-match-p "has ended:\nError:[^\0]*onnection"
                                  (string-join contents "\n"))))
      (agent-q-test-image-kill other))))

(agent-q-test-image-on-each what-runs-in-the-background-ends-with-the-turn ()
  "It is unwound in the image, and the user is told."
  (unwind-protect
      (agent-q-test-with-model
          (agent-q-json-serialize
           `((turns . [((steps . [,(agent-q-live-call-test--evaluation
                                    (format "(unwind-protect %s (defparameter cl-user::*aq-unwound* t))"
                                            agent-q-live-call-test--waiting)
                                    '(background . t))]))
                       ((steps . [((text . "Wait")) ((pause_ms . 2000)) ((text . "."))]))])))
        (agent-q-test-with-chat
          (agent-q-chat-set-connection connection)
          (agent-q-test-ask "go")
          (should (agent-q-test-shows "Stopped with the turn: eval_form (after "))
          (should (string-match-p "eval_form .*cancelled\\|stopped" (agent-q-test-log)))
          (agent-q-test-until
           (equal "T" (car (agent-q-test-image-values connection "(boundp 'cl-user::*aq-unwound*)"))))))
    (agent-q-test-image-directly
     connection "(progn (makunbound 'cl-user::*aq-free*) (makunbound 'cl-user::*aq-unwound*))")))

(agent-q-test-image-on-each a-flood-of-output-is-bounded ()
  "Only the end of it is sent, and the call's own output is as before."
  (let ((started (agent-q-test-image-start
                  connection "(progn (dotimes (i 20000) (format t \"line ~d~%\" i)) (sleep 1) :done)" 60))
        (id nil))
    (maphash (lambda (_ call) (setq id (agent-q-connection-call-id call))) agent-q-connection-call-pending)
    (agent-q-test-until
     (let ((value (agent-q-test-image-value connection "call-output" :call id)))
       (and (plist-get value :text)
            (should (<= (length (plist-get value :text)) 2000))
            (string-suffix-p "line 19999\n" (plist-get value :text)))))
    (should (string-match-p "characters of output omitted.*\\(?:.\\|\n\\)*line 19999"
                            (format "%S" (agent-q-test-image-end started))))
    ;; What has ended is gone.
    (should (plist-get (agent-q-test-image-value connection "call-output" :call id) :gone))))

(ert-deftest agent-q-live-call-a-silent-call-says-so ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "eval_form" :arguments "{\"form\":\"(f)\"}")
    (agent-q-test-event :call-started :call 1 :tool "eval_form")
    (let ((call (gethash 1 agent-q-call-table)))
      (setf (agent-q-call-started call) (time-subtract nil 41))
      (agent-q-render-update-item call)
      (should (agent-q-test-shows "eval_form (f) running 41 s, no output\n"))
      (setf (agent-q-call-output call)
            (list "a\n[31m half \u202e\n" 12 (time-subtract nil 40)))
      (agent-q-render-update-item call)
      (should (string-match-p "running 4[12] s, silent for 40 s: \\[31m half \\\\x202e\n"
                              (agent-q-test-log))))))

(ert-deftest agent-q-live-call-is-asked-again-soon-while-it-prints ()
  "The clock of the turn, of a second, is for calls that are silent."
  (agent-q-test-with-chat
    (cl-flet ((soon-p ()
                (prog1 (and agent-q-call-events--live-timer t)
                  (when agent-q-call-events--live-timer (cancel-timer agent-q-call-events--live-timer))
                  (setq agent-q-call-events--live-timer nil))))
      (agent-q-test-event :call-proposed :call 1 :tool "eval_form" :arguments "{\"form\":\"(f)\"}")
      (agent-q-test-event :state :state :running)
      (should-not (soon-p))
      (agent-q-test-event :call-started :call 1 :tool "eval_form")
      (should (soon-p))
      (let ((call (gethash 1 agent-q-call-table)))
        (agent-q-call-events--live-take call '(:text "one\ntwo\n" :printed 8))
        (should (agent-q-test-shows "running: two\n"))
        (should (string-match-p "Running eval_form: two" (agent-q-chat-view-header-line)))
        (should (soon-p))
        ;; Nothing new.
        (agent-q-call-events--live-take call '(:text "one\ntwo\n" :printed 8))
        (should-not (soon-p))
        (agent-q-test-event :call-finished :call 1 :outcome :succeeded :content "=> 1"
                            :milliseconds 9)
        (agent-q-call-events--live-take call '(:text "three\n" :printed 14))
        (should-not (soon-p))
        (should-not (agent-q-test-shows "three"))))))

(provide 'agent-q-live-call-test)
;;; agent-q-live-call-test.el ends here
