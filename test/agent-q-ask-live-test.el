;;; agent-q-ask-live-test.el --- Asking from the clients' own buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What goes to the chat from a live debugger, inspector, list of references and log of
;; the compiler, through SLY and SLIME.

;;; Code:

(require 'agent-q-ask)
(require 'agent-q-activity)
(require 'agent-q-test)
(require 'agent-q-test-tools)

(defun agent-q-ask-live-test--buffer (suffix text)
  "Wait for the buffer in a mode whose name ends with SUFFIX that shows TEXT; return it."
  (let ((find (lambda ()
                (seq-find (lambda (buffer)
                            (with-current-buffer buffer
                              (and (string-suffix-p suffix (symbol-name major-mode))
                                   (agent-q-test-shows text))))
                          (buffer-list)))))
    (agent-q-test-until (funcall find))
    (funcall find)))

(defun agent-q-ask-live-test--excerpts ()
  "Return what is sent of the current buffer: its places and texts as one text."
  (mapconcat (lambda (excerpt) (concat (car excerpt) "\n" (cdr excerpt)))
             (agent-q-activity-look-excerpts (agent-q-activity-look-here)) "\n"))

(defmacro agent-q-ask-live-test--with-file (text &rest body)
  "Run BODY in the buffer of a Lisp file with TEXT, in a project of its own."
  (declare (indent 1) (debug t))
  `(let* ((project (file-name-as-directory
                    (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
          (file (expand-file-name "live.lisp" project)))
     (write-region "" nil (expand-file-name "live.asd" project) nil 'silent)
     (write-region ,text nil file nil 'silent)
     (save-window-excursion
       (let ((buffer (find-file-noselect file)))
         (unwind-protect
             (progn (switch-to-buffer buffer)
                    ,@body)
           (with-current-buffer buffer (set-buffer-modified-p nil))
           (kill-buffer buffer))))))

(agent-q-test-tools-on-each ask-live-an-inspector-is-sent-to-a-chat-of-its-image ()
  "The whole page is attached, and the chat is about the same image."
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"A list.\"}]}]}"
    (save-window-excursion
      (agent-q-test-tools-client-call client "inspect" "(list 1 :aq-looked-at 3)")
      (let* ((inspector (agent-q-ask-live-test--buffer "inspector-mode" "AQ-LOOKED-AT"))
             (chats (agent-q-session-buffers))
             (asked (with-current-buffer inspector
                      (agent-q-ask "What is it?" (agent-q-activity-look-here) t))))
        (unwind-protect
            (with-current-buffer asked
              (should-not (memq asked chats))
              (should (equal connection agent-q-session-connection))
              (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "A list.")))
              (should (agent-q-test-shows (concat "  about " (buffer-name inspector))))
              (should (string-match-p
                       "What is it\\?"
                       (with-temp-buffer (insert-file-contents agent-q-test-requests)
                                         (should (search-forward "AQ-LOOKED-AT" nil t))
                                         (buffer-string)))))
          (kill-buffer asked)
          (kill-buffer inspector))))))

(agent-q-test-tools-on-each ask-live-what-the-compiler-says-goes-with-the-definition ()
  "The notes on it are sent with the definition; the compiler's log is one, too."
  (agent-q-ask-live-test--with-file
      "(in-package :cl-user)\n\n(defun aq-noted (x)\n  (aq-not-there-at-all x))\n\n(defun aq-fine () 1)\n"
    (let ((sly-compile-file-options nil))
      (agent-q-test-tools-client-call client "compile-file")
      (agent-q-test-until
       (seq-some (lambda (overlay) (or (overlay-get overlay 'slime-note)
                                       (overlay-get overlay 'sly-note)))
                 (overlays-in (point-min) (point-max))))
      (goto-char (point-min))
      (search-forward "defun aq-noted")
      (let ((sent (agent-q-ask-live-test--excerpts)))
        (should (string-match-p "\\`defun aq-noted, lines 3 to 4 of live\\.lisp, package cl-user\n" sent))
        (should (string-match-p "what the compiler says of it\nline [34]: .*AQ-NOT-THERE-AT-ALL" sent)))
      (search-forward "defun aq-fine")
      (should-not (string-match-p "what the compiler says" (agent-q-ask-live-test--excerpts)))
      (let ((log (agent-q-ask-live-test--buffer "compilation-mode" "AQ-NOT-THERE-AT-ALL")))
        (with-current-buffer log
          (goto-char (point-min))
          (search-forward "AQ-NOT-THERE-AT-ALL")
          (should (string-match-p "AQ-NOT-THERE-AT-ALL" (agent-q-ask-live-test--excerpts))))
        (kill-buffer log)))))

(agent-q-test-tools-on-each ask-live-references-are-sent-as-they-are-listed ()
  "A list of callers is attached, with the place of point in it."
  (agent-q-ask-live-test--with-file
      "(in-package :cl-user)\n(defun aq-called () 1)\n(defun aq-caller-one () (aq-called))\n(defun aq-caller-two () (aq-called))\n"
    (agent-q-test-image-load connection file)
    (agent-q-test-tools-client-call client "who-calls" "aq-called")
    (let ((list (agent-q-ask-live-test--buffer "xref-mode" "AQ-CALLER-TWO")))
      (with-current-buffer list
        (goto-char (point-min))
        (search-forward "AQ-CALLER-ONE")
        (let ((sent (agent-q-ask-live-test--excerpts)))
          (should (string-match-p
                   (format "\\`the buffer %s (.*xref-mode), point in its line %d\n"
                           (regexp-quote (buffer-name)) (line-number-at-pos))
                   sent))
          (should (string-match-p "AQ-CALLER-TWO" sent))))
      (kill-buffer list))))

(agent-q-test-tools-on-each ask-live-the-error-of-a-debugger-is-to-be-fixed ()
  "`agent-q-fix-error' sends the error, its frames and restarts; it stays open."
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"I see.\"}]}]}"
    (save-window-excursion
      (agent-q-test-image-as-user connection '(cl:error "aq is not~% there: ~a" 42) #'ignore)
      (agent-q-test-until (agent-q-test-image-debuggers))
      (agent-q-test-until (with-current-buffer (car (agent-q-test-image-debuggers))
                            (agent-q-test-shows "Backtrace:")))
      (let ((asked (with-current-buffer (car (agent-q-test-image-debuggers))
                     (agent-q-fix-error (agent-q-activity-look-here) t))))
        (unwind-protect
            (with-current-buffer asked
              (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "I see.")))
              (should (agent-q-test-shows "about SIMPLE-ERROR: aq is not there: 42"))
              (with-temp-buffer
                (insert-file-contents agent-q-test-requests)
                (should (search-forward "aq is not\\n there: 42" nil t))
                (should (search-forward "Restarts" nil t)))
              (should (= 1 (length (agent-q-test-image-debuggers)))))
          (kill-buffer asked))
        (agent-q-test-tools-quit-debuggers client)))))

(agent-q-test-tools-on-each ask-live-an-error-is-sent-with-the-form-that-led-to-it ()
  "Frames may name neither: a call in the last place leaves none."
  (with-current-buffer (agent-q-test-tools-repl client)
    (goto-char (point-max))
    (insert "(error \"aq ~a\" 42)")
    (agent-q-test-tools-client-call client (if (eq client 'sly) "mrepl-return" "repl-return")))
  (agent-q-test-until (agent-q-test-image-debuggers))
  (unwind-protect
      (with-current-buffer (car (agent-q-test-image-debuggers))
        (agent-q-test-until (agent-q-test-shows "Backtrace:"))
        (should (string-match-p "\\`Debugger u[0-9]+: SIMPLE-ERROR: aq 42\nForm: (error \"aq ~a\" 42)\nRestarts: "
                                (agent-q-activity--look-error (current-buffer)))))
    (agent-q-test-tools-quit-debuggers client)))

(agent-q-test-tools-on-each ask-live-results-of-tests-are-sent ()
  "What a run of tests printed in the REPL is what is looked at there."
  (let ((repl (agent-q-test-tools-repl client)))
    (with-current-buffer repl
      (goto-char (point-max))
      (insert "(progn (format t \"1 of 2 checks failed: ~a~%\" :aq-check) (values))")
      (agent-q-test-tools-client-call client (if (eq client 'sly) "mrepl-return" "repl-return"))
      (agent-q-test-until (agent-q-test-shows "checks failed: AQ-CHECK"))
      (agent-q-test-until (string-blank-p (agent-q-activity-typed)))
      (let ((sent (agent-q-ask-live-test--excerpts)))
        (should (string-match-p "\\`the last lines of the REPL " sent))
        (should (string-match-p "1 of 2 checks failed: AQ-CHECK" sent))))))

(provide 'agent-q-ask-live-test)
;;; agent-q-ask-live-test.el ends here
