;;; agent-q-test-files.el --- Tool calls on real files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A project in a directory of its own, a chat about it, and a model that makes
;; the calls a test wants.  Questions are answered by the test.

;;; Code:

(require 'agent-q-test)

(defvar agent-q-test-files-root nil
  "The directory of the project.")

(defvar agent-q-test-files-home nil
  "Where projects are made; nil for the directory of all tests.")

(defvar agent-q-test-files-answer "approved"
  "How approval requests are answered; nil leaves that to the test.")

(defvar agent-q-test-files-before-answer #'ignore
  "Function called before an approval request is answered.")

(defvar agent-q-test-files-hold nil
  "A file for which the model waits in the middle of each call, or nil.")

(defvar agent-q-test-files-asked nil
  "The reasons for which the last call asked.")

(defvar agent-q-test-files--calls nil
  "What the model is going to call: lists of tool and arguments.")

(defun agent-q-test-files-path (name)
  "Return the path of the file NAME in the project."
  (expand-file-name name agent-q-test-files-root))

(defun agent-q-test-files-write (name text)
  "Have the file NAME of the project hold TEXT; return its path."
  (let ((path (agent-q-test-files-path name))
        (coding-system-for-write 'utf-8-unix))
    (make-directory (file-name-directory path) t)
    (write-region text nil path nil 'silent)
    path))

(defun agent-q-test-files-bytes (name)
  "Return what the file NAME of the project holds, byte for byte."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally (agent-q-test-files-path name))
    (buffer-string)))

(defun agent-q-test-files-text (name)
  "Return what the file NAME of the project holds, as UTF-8."
  (decode-coding-string (agent-q-test-files-bytes name) 'utf-8-unix))

(defmacro agent-q-test-files-in-project (calls &rest body)
  "Run BODY in a new chat about a new project.
CALLS are what the model calls, one each time it is asked, or a list of
some in one message."
  (declare (indent 1) (debug t))
  `(let* ((agent-q-test-files-root
           (file-name-as-directory
            (file-truename (make-temp-file (expand-file-name
                                            "project" (or agent-q-test-files-home
                                                          agent-q-test-directory))
                                           t))))
          (default-directory agent-q-test-files-root)
          (agent-q-project-root agent-q-test-files-root)
          (agent-q-offered-tools 'all)
          (before (buffer-list)))
     (agent-q-test-with-model (agent-q-test-files--script ,calls)
       (agent-q-test-with-chat
         (agent-q-test-files--listen)
         (unwind-protect
             (progn ,@body)
           (dolist (buffer (buffer-list))
             (unless (or (memq buffer before) (eq buffer chat)
                         ;; One that another was made from took it along.
                         (not (buffer-live-p buffer)))
               (with-current-buffer buffer
                 (set-buffer-modified-p nil))
               (kill-buffer buffer))))))))

(defun agent-q-test-files--script (calls)
  "Return a script in which the model makes each of CALLS in a turn."
  (json-encode
   `((turns . ,(vconcat
                (seq-mapcat (lambda (call)
                          `(((steps . [((tool_calls
                                         . ,(vconcat
                                             (mapcar (lambda (one)
                                                       `((name . ,(car one))
                                                         (arguments . ,(cdr one))))
                                                     (if (stringp (car call)) (list call) call))))
                                        ,@(and agent-q-test-files-hold
                                               `((fragments . 20)
                                                 (hold . ,agent-q-test-files-hold))))]))
                            ((steps . [((text . "ok"))]))))
                        calls))))))

(defvar-local agent-q-test-files--result nil
  "Outcome and content of the last call.")

(defun agent-q-test-files--listen ()
  "Note what happens in the current chat, and answer its questions."
  (let ((handler agent-q-events-handler))
    (setq agent-q-events-handler
          (lambda (event)
            (funcall handler event)
            (pcase (plist-get event :type)
              (:approval
               (push (plist-get event :reason) agent-q-test-files-asked)
               (funcall agent-q-test-files-before-answer)
               (when agent-q-test-files-answer
                 (agent-q-core-decide (plist-get event :call)
                                      agent-q-test-files-answer nil)))
              (:call-finished
               (setq agent-q-test-files--result
                     (cons (plist-get event :outcome)
                           (plist-get event :content)))))))))

(defun agent-q-test-files-next ()
  "Have the model make its next call; return outcome and content."
  (setq agent-q-test-files--result nil
        agent-q-test-files-asked nil)
  (agent-q-test-ask "go")
  agent-q-test-files--result)

(defun agent-q-test-files-succeeds (&optional regexp)
  "Make the next call, which has to succeed with a text that REGEXP matches."
  (let ((result (agent-q-test-files-next)))
    (unless (and (eq (car result) :succeeded)
                 (string-match-p (or regexp "") (cdr result)))
      (ert-fail (list "Should have succeeded" regexp result)))
    (cdr result)))

(defun agent-q-test-files-fails (regexp)
  "Make the next call, which has to fail with a text that REGEXP matches."
  (let ((result (agent-q-test-files-next)))
    (unless (and (eq (car result) :failed)
                 (string-match-p regexp (cdr result)))
      (ert-fail (list "Should have failed" regexp result)))
    (cdr result)))

(defun agent-q-test-files-undo ()
  "Undo the turn and return what the chat says."
  (let ((start (copy-marker agent-q-render-end)))
    (agent-q-undo-turn)
    (agent-q-test-until (string-match-p "Undone\\|Nothing to undo" (buffer-substring
                                                  start agent-q-render-end)))
    (buffer-substring-no-properties start agent-q-render-end)))

(provide 'agent-q-test-files)
;;; agent-q-test-files.el ends here
