;;; agent-q-test-tools.el --- Tools tested through a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tests that run once through SLIME and once through SLY, in a chat whose
;; tools are called from its console, so that core, Emacs and image are real.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)
(declare-function slime-output-buffer "ext:slime-repl")
(declare-function sly-mrepl--find-buffer "ext:sly-mrepl")
(declare-function agent-q-connection-pending "agent-q-image")

(defmacro agent-q-test-tools-on-each (name arguments docstring &rest body)
  "Define a test NAME for each client, run in a chat about its image.
In BODY, CLIENT, CONNECTION and CHAT are bound.  ARGUMENTS is empty;
DOCSTRING says what is shown.  No debugger may be open at the end."
  (declare (indent defun) (doc-string 3) (debug t))
  (ignore arguments)
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-%s/%s" name client)) ()
             ,docstring
             :tags '(:image ,(intern (format ":%s" client)))
             (let* ((client ',client)
                    (connection (agent-q-test-image-connection client)))
               (unless connection (ert-skip (format "No SBCL through %s" client)))
               (agent-q-test-tools-choose connection)
               (agent-q-test-with-chat
                 (agent-q-chat-set-connection connection)
                 (ignore chat)
                 ,@body)
               (agent-q-test-until (zerop (agent-q-connection-pending)))
               (should-not (agent-q-test-image-debugged)))))
        (agent-q-test-image-clients name))))

(defun agent-q-test-tools-choose (connection)
  "Make CONNECTION the one that its client works with."
  (set (intern (format "%s-default-connection"
                       (agent-q-connection-client connection)))
       (agent-q-connection-process connection)))

(defun agent-q-test-tools-client-call (client name &rest arguments)
  "Call the function of CLIENT called NAME with ARGUMENTS."
  (apply (intern (format "%s-%s" client name)) arguments))

(defun agent-q-test-tools-repl (client)
  "Return the buffer of the REPL of CLIENT."
  (let ((process (agent-q-connection-process
                  (agent-q-test-image-connection client))))
    (agent-q-test-until
     (pcase client
       ('sly (let ((buffer (and (fboundp 'sly-mrepl--find-buffer)
                                (sly-mrepl--find-buffer process))))
               ;; Its prompt can come before it knows where to send input.
               (and buffer
                    (buffer-local-value 'sly-mrepl--remote-channel buffer)
                    buffer)))
       ('slime (let ((slime-dispatching-connection process))
                 (and (fboundp 'slime-output-buffer)
                      (save-window-excursion (slime-output-buffer)))))))))

(defun agent-q-test-tools-ask (line &optional chat)
  "Call the tool of the console LINE in CHAT and return its answer.
What needs approval is approved."
  (with-current-buffer (or chat (current-buffer))
    (agent-q-test-send line)
    (agent-q-test-until
     (progn
       (when (agent-q-call-waiting)
         (agent-q-test-answer "y"))
       (agent-q-test-idle-p))
     line)
    (agent-q-test-tools-answer)))

(defmacro agent-q-test-tools-unasked (&rest body)
  "Evaluate BODY, in which no tool may need approval."
  (declare (indent 0) (debug t))
  `(cl-letf (((symbol-function 'agent-q-test-answer)
              (lambda (&rest _) (ert-fail (list "Asked" (agent-q-call-waiting))))))
     ,@body))

(defun agent-q-test-tools-answer ()
  "Return the content of the latest call of the current chat, without its image's name.
That depends on whether another test has started an image, too."
  (let* ((answer (agent-q-test-tools-whole-answer))
         (end (and answer (string-match-p "\n(In image .*\\.)\\'" answer))))
    (if end (substring answer 0 end) answer)))

(defun agent-q-test-tools-whole-answer ()
  "Return the content of the latest call of the current chat.
What a call was asked about while it ran is none."
  (let ((latest nil))
    (maphash (lambda (key call)
               (when (and (not (agent-q-call-effect-p call))
                          (or (null latest) (> key (agent-q-call-key latest))))
                 (setq latest call)))
             agent-q-call-table)
    (agent-q-call-content latest)))

(defun agent-q-test-tools-quit-debuggers (client)
  "Leave the debuggers of CLIENT, as the user does with q."
  (dolist (buffer (agent-q-test-image-debuggers))
    (with-current-buffer buffer
      (agent-q-test-tools-client-call
       (if (eq client 'sly) 'sly-db 'sldb) "quit")))
  (agent-q-test-until (not (agent-q-test-image-debuggers))))

(provide 'agent-q-test-tools)
;;; agent-q-test-tools.el ends here
