;;; agent-q-test-watch.el --- Calls whose effects are asked about  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Calls into an image under the watch, and a small function that answers its
;; questions in the place of a user.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defvar agent-q-test-watch-answer nil
  "A function of a question that gives \"allow\", \"deny\", \"stop\" or nil.
It may also give a list of that and a reason.")

(defvar agent-q-test-watch-questions nil
  "The questions that came, and those taken back, latest first.")

(defun agent-q-test-watch-take (connection question)
  "Answer QUESTION, a property list, which came over CONNECTION."
  (push question agent-q-test-watch-questions)
  (unless (plist-get question :withdrawn)
    (let ((answer (funcall agent-q-test-watch-answer question)))
      (when answer
        (agent-q-connection-ask
         connection :rex
         `(cl:funcall (cl:find-symbol "ANSWER" "AGENT-Q-IMAGE")
                      ,(plist-get question :call) ,(plist-get question :question)
                      ,@(if (consp answer) answer (list answer)))
         t #'ignore)))))

(defmacro agent-q-test-watch-with (connection answer &rest body)
  "Evaluate BODY while what is asked over CONNECTION gets ANSWER.
That is a function, or one of \"allow\", \"deny\", \"stop\" and nil."
  (declare (indent 2) (debug t))
  `(let* ((agent-q-test-watch-questions nil)
          (answer ,answer)
          (agent-q-test-watch-answer (if (functionp answer) answer (lambda (_) answer)))
          (prefix "agent-q effect: ")
          (advice (lambda (function process event)
                    (pcase event
                      (`(:background-message ,(and text (pred (string-prefix-p prefix))
                                                   (guard (not (string-search " :refused " text)))))
                       (agent-q-test-watch-take
                        ,connection
                        (car (read-from-string (substring text (length prefix)))))
                       t)
                      (_ (funcall function process event))))))
     (unwind-protect
         (progn
           (advice-add 'agent-q-image--on-event :around advice)
           ,@body)
       (advice-remove 'agent-q-image--on-event advice))))

(defun agent-q-test-watch-words ()
  "Return what was asked, in order."
  (delq nil (mapcar (lambda (question) (plist-get question :words))
                    (reverse agent-q-test-watch-questions))))

(defun agent-q-test-watch-eval (connection form &rest options)
  "Return the reply to FORM, watched over CONNECTION with OPTIONS."
  (agent-q-test-image-eval
   connection (string-replace "DIR/" (file-name-as-directory agent-q-test-directory) form)
   :watch (append options '(:patience 30 :private (".env" "id_rsa")))))

(defun agent-q-test-watch-file (name)
  "Return the name of the file NAME that forms call DIR/NAME, made again."
  (let ((file (expand-file-name name agent-q-test-directory)))
    (write-region "1" nil file nil 'silent)
    (file-truename file)))

(defun agent-q-test-watch-values (reply)
  "Return the values of the last form in REPLY."
  (plist-get (car (last (plist-get (plist-get reply :value) :forms))) :values))

(defun agent-q-test-watch-filled (connection text)
  "Return TEXT of a fixture for the image behind CONNECTION."
  (let ((case-fold-search nil)
        (directory (file-name-as-directory (file-truename agent-q-test-directory))))
    (thread-last text
      (string-replace "CLIENT" (if (eq 'sly (agent-q-connection-client connection))
                                   ":slynk"
                                 ":swank"))
      (string-replace "VICTIM" (concat directory "victim"))
      (string-replace "HARM" (concat directory "harm"))
      (string-replace "DIR/" directory))))

(defun agent-q-test-watch-directly (connection text)
  "Return the printed value of TEXT, evaluated by the user behind CONNECTION."
  (agent-q-test-image-directly
   connection (format "(progn %s)" (agent-q-test-watch-filled connection text))))

(defun agent-q-test-watch-start (connection form)
  "Have FORM evaluated over CONNECTION, watched; return a function that says whether it has ended."
  (let ((ends nil))
    (agent-q-image-call connection (gensym) "eval-form"
                        (list :form form :watch '(:patience 30))
                        30 (lambda (&rest _) (setq ends t)))
    (lambda () ends)))

(defun agent-q-test-watch-await-value (connection form)
  "Wait until FORM is true in the image behind CONNECTION."
  (should (agent-q-test-image-await
           (lambda () (equal "T" (agent-q-test-watch-directly connection form))))))

(provide 'agent-q-test-watch)
;;; agent-q-test-watch.el ends here
